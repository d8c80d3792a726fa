"""Formats in which a frame is written, with its provenance; for people, texts stored token by token become one column of words."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from atlas.export.cells import plain_rows, to_json
from atlas.export.files import write_file
from atlas.export.latex import latex_table
from atlas.export.markdown import markdown_table
from atlas.export.terminal import terminal_table
from schema.errors import AtlasError

TEXTS = ("tokens", "coefficients", "peak")
"""Columns of texts stored token by token, as in trigger_contexts."""

SHOWN = ("rank", "coefficient", "text", "document")

BEFORE, AFTER = 10, 4
"""Tokens shown before and after the peak."""


def legible(frame: pl.DataFrame) -> pl.DataFrame:
    """Show texts stored token by token as rank, coefficient, the words with the peak in brackets, and the document; leave other frames as they are."""
    if not set(TEXTS) <= set(frame.columns):
        return frame
    texts = pl.Series("text", [words(tokens, peak) for tokens, peak in frame.select("tokens", "peak").iter_rows()], dtype=pl.String)
    return frame.with_columns(texts).select(c for c in SHOWN if c in frame.columns or c == "text")


def words(tokens: list[str], peak: int) -> str:
    before, after = "".join(tokens[max(peak - BEFORE, 0) : peak]), "".join(tokens[peak + 1 : peak + 1 + AFTER])
    token = tokens[peak]
    space = " " if token.startswith(" ") else ""
    return f"{'… ' if peak > BEFORE else ''}{before.lstrip(' ')}{space}[{token.removeprefix(' ')}]{after}{' …' if len(tokens) > peak + 1 + AFTER else ''}"


@dataclass(frozen=True)
class Style:
    """Settings of a table beside its rows. `width` and `color` are the terminal's; `caption` and `label` are LaTeX source."""

    provenance: dict[str, object] = field(default_factory=dict)
    caption: str | None = None
    label: str | None = None
    width: int | None = None
    color: bool = False


def as_table(frame: pl.DataFrame, style: Style) -> str:
    return terminal_table(frame, width=style.width, color=style.color)


def as_json(frame: pl.DataFrame, style: Style) -> str:
    return to_json(plain_rows(frame), indent=2) + "\n"


def as_jsonl(frame: pl.DataFrame, style: Style) -> str:
    return "".join(to_json(row) + "\n" for row in plain_rows(frame))


def as_csv(frame: pl.DataFrame, style: Style) -> str:
    """Render CSV (RFC 4180): lists and structures as JSON, bytes as hexadecimal.

    Tokens that begin with = @ - + stay as they are; only the sheets for annotators protect them from spreadsheets.
    """
    return frame.with_columns(pl.Series(c, flat(frame[c]), dtype=pl.String) for c in frame.columns if is_nested_or_binary(frame.schema[c])).write_csv()


def is_nested_or_binary(dtype: pl.DataType) -> bool:
    return dtype.is_nested() or dtype == pl.Binary


def flat(column: pl.Series) -> list[str | None]:
    return [None if v is None else v.hex() if isinstance(v, bytes) else to_json(v) for v in column.to_list()]


def as_markdown(frame: pl.DataFrame, style: Style) -> str:
    return markdown_table(frame) + "\n"


def as_latex(frame: pl.DataFrame, style: Style) -> str:
    shown = legible(frame)
    wide = () if shown is frame else ("text",)
    return latex_table(shown, caption=style.caption, label=style.label, comments=comments(style.provenance), wide=wide)


def comments(provenance: dict[str, object]) -> dict[str, str]:
    """Convert the provenance to comments, one per entry; the SQL of a question is left out, because its name and parameters are there."""
    left_out = {"sql"} if provenance.get("question") else set()
    return {key: value if isinstance(value, str) else to_json(value) for key, value in provenance.items() if value is not None and key not in left_out}


def as_parquet(frame: pl.DataFrame, style: Style) -> bytes:
    """Render Parquet (Zstandard), with the provenance under 'atlas' in its key-value metadata. Raises AtlasError for integers that Parquet has no type for."""
    import pyarrow.parquet as pq

    if too_wide := [name for name, kind in frame.schema.items() if kind == pl.Int128]:
        raise AtlasError(f"column {too_wide[0]!r} holds numbers of more than 38 digits, which Parquet cannot store; cast it to text in the query: ::VARCHAR")
    table = frame.to_arrow()
    metadata = {**(table.schema.metadata or {}), b"atlas": json.dumps(style.provenance, ensure_ascii=False).encode()}
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), out, compression="zstd")
    return out.getvalue()


FORMATS: dict[str, Callable[[pl.DataFrame, Style], str | bytes]] = {
    "table": as_table,
    "json": as_json,
    "jsonl": as_jsonl,
    "csv": as_csv,
    "parquet": as_parquet,
    "markdown": as_markdown,
    "latex": as_latex,
}

SUFFIXES = {".txt": "table", ".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet", ".md": "markdown", ".tex": "latex"}


def format_of(path: Path) -> str:
    """Find the format that a file's suffix stands for. Raises AtlasError, with the known suffixes, for an unknown one."""
    if path.suffix not in SUFFIXES:
        raise AtlasError(f"{path}: no format has the suffix '{path.suffix}'; use one of {' '.join(SUFFIXES)}, or give --format")
    return SUFFIXES[path.suffix]


def render(frame: pl.DataFrame, format: str, style: Style) -> bytes:
    """Render the whole file in one of FORMATS, text in UTF-8. Raises AtlasError for text that UTF-8 cannot encode."""
    rendered = FORMATS[format](frame, style)
    try:
        return rendered if isinstance(rendered, bytes) else rendered.encode()
    except UnicodeEncodeError as error:
        raise AtlasError(
            f"the table holds U+{ord(error.object[error.start]):04X}, half a surrogate pair, which UTF-8 cannot encode; check the text that was typed"
        ) from error


def save(frame: pl.DataFrame, path: Path, format: str, style: Style) -> None:
    """Write `path` and its provenance, as atlas.export.files.write_file does."""
    save_bytes(render(frame, format, style), path, style.provenance)


def save_bytes(content: bytes, path: Path, provenance: dict[str, object]) -> None:
    """Write rendered content to `path`, and its provenance beside it, as `save` does."""
    write_file(path, content, provenance=(json.dumps(provenance, ensure_ascii=False, indent=2) + "\n").encode())

"""Write a paper's items: ask, then tables, figures and provenance of each into the folder, one after the other."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import polars as pl

from atlas.api import Atlas
from atlas.export.figures import FIGURE_FORMATS, render_figure
from atlas.export.figures import PACKAGES as FIGURE_PACKAGES
from atlas.export.formats import Style, save, save_bytes, write_file
from atlas.export.latex import tex
from atlas.export.provenance import provenance
from atlas.frames import fetch_rows
from atlas.papers.items import Item, Made, Paper
from atlas.papers.needs import kinds, missing
from atlas.papers.page import page
from atlas.papers.printed import active_of, caption, cut_note, printed, setting_of
from schema.errors import AtlasError

TABLE_FORMATS = {"tex": "latex", "md": "markdown", "csv": "csv", "parquet": "parquet"}
"""Suffix → format."""

WHOLE = {"csv", "parquet"}
"""Formats that hold every column and row; the others hold what is printed."""


Choices = Mapping[str, object]
"""What the caller chooses for all items: `corpus` (None for all), `threshold`. An item takes those that its question has."""


def write_paper(a: Atlas, paper: Paper, out: Path, choices: Choices, *, only: Collection[str], report: Callable[[str], None]) -> list[Made]:
    """Write the paper's items (or those named in `only`) and index.html into the folder `out`; `report` is told each name as its turn comes.

    An item that this atlas cannot give, or that fails, does not stop the others, and other papers stay on the page.
    Raises AtlasError if the folder cannot be written.
    """
    folders(out)
    made = []
    for item in paper.items:
        if not only or item.name in only:
            report(item.name)
            made.append(write_item(a, item, out, choices))
    index = out / "index.html"
    former = index.read_text(encoding="utf-8", errors="replace") if index.is_file() else ""
    write_file(index, page(paper, made, a.path.name, setting_of(a.con, choices.get("corpus")), out, former).encode())
    return made


def summary(made: Sequence[Made]) -> pl.DataFrame:
    """One row per item: where the paper has it, rows, seconds, and the files or the reason there are none."""
    rows = [(m.item.name, m.item.place, m.frame.height if m.frame is not None else None, round(m.seconds, 2), m.reason or " ".join(m.files)) for m in made]
    return pl.DataFrame(rows, schema={"item": str, "place": str, "rows": int, "seconds": float, "files, or why there are none": str}, orient="row")


def folders(out: Path) -> None:
    try:
        for name in ("figures", "tables"):
            (out / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AtlasError(f"cannot make the folder {out}: {error.strerror}") from error


def write_item(a: Atlas, item: Item, out: Path, choices: Choices) -> Made:
    start = time.monotonic()
    reason = missing(a.con, str(a.path), item.needs, choices.get("corpus")) or unasked(a, item)
    if reason:
        return Made(item, reason=reason)
    try:
        frame = item.ask(a, choices)
    except AtlasError as error:
        return Made(item, time.monotonic() - start, reason=str(error), is_failure=True)
    if frame.is_empty():
        return Made(item, time.monotonic() - start, reason=f"no rows: {item.if_empty}")
    arguments = item.arguments(choices)
    words = caption(frame, item, arguments, setting_of(a.con, arguments.get("corpus")), active_of(a.con))
    where = source(a, item, frame, words, arguments)
    style = Style(where, caption=tex(f"{words} {cut_note(frame)}".rstrip()), label=f"tab:{item.name}")
    files = {**write_tables(item, frame, out, style), **write_figures(item, frame, out, where)}
    return Made(item, time.monotonic() - start, frame, words, files)


def unasked(a: Atlas, item: Item) -> str | None:
    """The reason, if the atlas was written before the item's question."""
    if item.asked is None or fetch_rows(a.con, "SELECT 1 FROM duckdb_functions() WHERE function_name = ? LIMIT 1", [item.asked.name]):
        return None
    return f"this file is older than the question {item.asked.name}; run its `atlas ingest` again, which keeps what is done and renews the questions"


def source(a: Atlas, item: Item, frame: pl.DataFrame, words: str, arguments: dict[str, object]) -> dict[str, object]:
    """Provenance of an item's files."""
    found = provenance(
        a.con,
        a.path,
        sql=item.sql,
        n_rows=frame.height,
        question=item.asked.name if item.asked else None,
        parameters=arguments,
        kinds=kinds(item.needs),
        packages=FIGURE_PACKAGES if item.chart else (),
    )
    return {"item": item.name, "place": item.place, "caption": words, "n": item.n(frame), "exclusions": item.exclusions, **found}


def write_tables(item: Item, frame: pl.DataFrame, out: Path, style: Style) -> dict[str, Path]:
    files = {suffix: out / "tables" / f"{item.name}.{suffix}" for suffix in TABLE_FORMATS}
    for suffix, format in TABLE_FORMATS.items():
        save(frame if suffix in WHOLE else printed(frame, item), files[suffix], format, style)
    return files


def write_figures(item: Item, frame: pl.DataFrame, out: Path, where: dict[str, object]) -> dict[str, Path]:
    if item.chart is None:
        return {}
    chart = item.chart(frame)
    files = {format: out / "figures" / f"{item.name}.{format}" for format in FIGURE_FORMATS}
    for format, path in files.items():
        save_bytes(render_figure(chart, format), path, where)
    return files

"""Options that several commands share."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    import polars as pl

    from atlas.api import Atlas

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("table", "json", "jsonl", "csv", "parquet", "markdown", "latex")
"""Names of the formats, as in atlas/export/formats.py, which is not imported for --help."""

OUTPUT = ("format_", "output", "columns", "caption", "label")
"""Names of the output options, as `emit` takes them."""


def db_option(command: F) -> F:
    return click.option("--db", type=click.Path(path_type=Path), envvar="ATLAS_DB", metavar="FILE", show_envvar=True, help="The atlas to read.")(command)


def output_options(*, to_file: bool = False) -> Callable[[F], F]:
    """Build a decorator that adds --format, -o (required with `to_file`), --columns, --caption, --label."""

    def decorate(command: F) -> F:
        for option in (
            click.option("--label", metavar="TEXT", help="\\label of a LaTeX table."),
            click.option("--caption", metavar="TEXT", help="\\caption of a LaTeX table, as LaTeX source."),
            click.option("--columns", metavar="A,B,…", help="Only these columns, in this order."),
            click.option(
                "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", required=to_file, help="Write FILE, and FILE.provenance.json beside it."
            ),
            click.option("--format", "format_", type=click.Choice(FORMATS), help="Output format.  [default: that of the suffix of -o, else table]"),
        ):
            command = option(command)
        return command

    return decorate


def require_path(db: Path | None) -> Path:
    """Return the path of --db or ATLAS_DB. Raises UsageError if neither is given."""
    if db is None:
        raise click.UsageError("which atlas? Give --db FILE, or set ATLAS_DB")
    return db


def open_atlas(db: Path | None) -> "Atlas":
    """Open the atlas of --db or ATLAS_DB, with a note on stderr for each file beside it that cannot be read. Raises UsageError if neither is given."""
    path = require_path(db)
    from atlas.api import Atlas
    from atlas.left_out import shut_files

    atlas = Atlas(path)
    for note in shut_files(atlas.path):
        click.echo(f"note: {note}", err=True)
    return atlas


def emit(
    frame: "pl.DataFrame",
    *,
    provenance: Callable[[], dict[str, object]] = dict,
    format_: str | None,
    output: Path | None,
    columns: str | None,
    caption: str | None,
    label: str | None,
) -> None:
    """Print the frame, or write it to the file of -o. `provenance` is called only if the output stores it, since the call takes as long as a question."""
    from atlas.export import formats
    from atlas.export.visible import visible_lines

    frame = choose(frame, columns)
    if output == Path("-"):
        raise click.UsageError("`-o -` names no file: without -o, results go to standard output")
    is_terminal = output is None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else None
    is_kept = output is not None or format_ in ("latex", "parquet")
    style = formats.Style(provenance() if is_kept else {}, caption, label, width=width, color=is_terminal and use_color())
    if output is not None:
        formats.save(frame, output, format_ or formats.format_of(output), style)
        click.echo(f"{output}: {frame.height} row{'' if frame.height == 1 else 's'}", err=True)
        return
    if format_ == "parquet" and is_terminal:
        raise click.UsageError("Parquet is not for terminals: add -o FILE")
    rendered = formats.render(frame, format_ or "table", style)
    if is_terminal and format_ not in (None, "table"):
        # a terminal would obey what a stranger wrote into a text
        rendered = visible_lines(rendered.decode()).encode()
    sys.stdout.buffer.write(rendered)


def use_color() -> bool:
    import os

    return not os.environ.get("NO_COLOR")


def choose(frame: "pl.DataFrame", columns: str | None) -> "pl.DataFrame":
    if columns is None:
        return frame
    names = [name.strip() for name in columns.split(",")]
    unknown = [name for name in names if name not in frame.columns]
    if unknown:
        raise click.UsageError(f"no column {', '.join(repr(name) for name in unknown)}; there are {', '.join(frame.columns)}")
    if len(set(names)) < len(names):
        raise click.UsageError(f"--columns {columns} names a column twice")
    return frame.select(names)

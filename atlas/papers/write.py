"""Files of a paper's items: tables, figures and provenance of each, written into the folder one after the other."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from atlas.api import Atlas
from atlas.export.files import write_file
from atlas.export.formats import save_bytes
from atlas.export.rendering import FIGURE_FORMATS, convert_svg, figure_svg
from atlas.papers.captions import setting_of
from atlas.papers.items import Item, Paper, RenderedItem
from atlas.papers.make import TABLE_FORMATS, Choices, make_item, table_bytes
from atlas.papers.page import ARTICLE, page
from schema.errors import AtlasError


def write_paper(a: Atlas, paper: Paper, out: Path, choices: Choices, *, only: Collection[str], report: Callable[[str], None]) -> list[RenderedItem]:
    """Write the paper's items (or those named in `only`) and index.html into the folder `out`; call `report` with each name as its turn comes.

    An item that this atlas cannot give, or that fails, does not stop the other items. Papers that index.html lists already stay in it.
    Raises AtlasError if the folder cannot be written, or has an index.html that is not a page of papers.
    """
    index = out / "index.html"
    former = index.read_text(encoding="utf-8", errors="replace") if index.is_file() else ""
    if index.exists() and not ARTICLE.search(former):
        raise AtlasError(f"cannot write {index}: it is there, and no page of papers; give another folder, or move it away")
    folders(out)
    made = []
    for item in paper.items:
        if not only or item.name in only:
            report(item.name)
            made.append(write_item(a, item, out, choices))
    write_file(index, page(paper, made, a.path.name, setting_of(a.con, choices.get("corpus")), out, former).encode())
    return made


def summary(made: Sequence[RenderedItem]) -> pl.DataFrame:
    """Summarise the items made, one row each: name, place in the paper, rows, seconds, and the files or the reason that there are none."""
    rows = [(m.item.name, m.item.place, m.frame.height if m.frame is not None else None, round(m.seconds, 2), m.reason or " ".join(m.files)) for m in made]
    return pl.DataFrame(rows, schema={"item": str, "place": str, "rows": int, "seconds": float, "files, or why there are none": str}, orient="row")


def folders(out: Path) -> None:
    try:
        for name in ("figures", "tables"):
            (out / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AtlasError(f"cannot make the folder {out}: {error.strerror}") from error


def write_item(a: Atlas, item: Item, out: Path, choices: Choices) -> RenderedItem:
    start = time.monotonic()
    made = make_item(a, item, choices)
    if made.frame is None:
        return made
    return replace(made, files={**write_tables(made, out), **write_figures(made, made.frame, out)}, seconds=time.monotonic() - start)


def write_tables(made: RenderedItem, out: Path) -> dict[str, Path]:
    files = {suffix: out / "tables" / f"{made.item.name}.{suffix}" for suffix in TABLE_FORMATS}
    for suffix, path in files.items():
        save_bytes(table_bytes(made, suffix), path, made.source)
    return files


def write_figures(made: RenderedItem, frame: pl.DataFrame, out: Path) -> dict[str, Path]:
    if made.item.chart is None:
        return {}
    svg = figure_svg(made.item.chart(frame))
    files = {format: out / "figures" / f"{made.item.name}.{format}" for format in FIGURE_FORMATS}
    for format, path in files.items():
        save_bytes(convert_svg(svg, format), path, made.source)
    return files

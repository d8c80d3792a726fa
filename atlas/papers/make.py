"""Making of an item: its rows, the words around them, their provenance, and the bytes of its tables. No file is written here."""

import time
from collections.abc import Mapping
from shlex import quote

from atlas.api import Atlas
from atlas.commands import complete
from atlas.cursors import fetch_rows
from atlas.export.formats import Style, render
from atlas.export.latex import tex
from atlas.export.provenance import provenance
from atlas.export.rendering import PACKAGES as FIGURE_PACKAGES
from atlas.left_out import describe_left_out
from atlas.papers.captions import active_of, caption, cut_note, printed_table, setting_of
from atlas.papers.items import Item, RenderedItem
from atlas.papers.needs import describe_unmet_need, kinds
from schema.errors import AtlasError

TABLE_FORMATS = {"tex": "latex", "md": "markdown", "csv": "csv", "parquet": "parquet"}
"""Suffix of a file → format of its table."""

WHOLE = {"csv", "parquet"}
"""Formats that hold every column and row; the others hold what is printed."""

Choices = Mapping[str, object]
"""Choices of the caller for all items: `corpus` (None for all), `threshold`. An item takes those that its question has as parameters."""


def make_item(a: Atlas, item: Item, choices: Choices) -> RenderedItem:
    """Make the item, without files; if there are no rows, give the reason."""
    start = time.monotonic()
    reason = describe_unmet_need(a.con, str(a.path), item.needs, choices.get("corpus"))
    others = describe_left_out(a.con, item.resolved_question.catalog) if item.resolved_question else ""
    if reason:
        return RenderedItem(item, reason=f"{reason} ({others})" if others else reason)
    choices = name_text(a, item, choices)
    try:
        frame = item.ask(a, choices)
    except AtlasError as error:
        return RenderedItem(item, time.monotonic() - start, reason=str(error), is_failure=True)
    if frame.is_empty():
        return RenderedItem(
            item, time.monotonic() - start, reason=f"no rows: {complete(a.con, item.if_empty.format(path=quote(str(a.path))), choices.get('corpus'))}"
        )
    arguments = item.arguments(choices)
    words = caption(frame, item, arguments, setting_of(a.con, arguments.get("corpus")), active_of(a.con), others)
    found = provenance(
        a.con,
        a.path,
        sql=item.sql,
        n_rows=frame.height,
        question=item.resolved_question.name if item.resolved_question else None,
        parameters=arguments,
        kinds=kinds(item.needs),
        packages=FIGURE_PACKAGES if item.chart else (),
    )
    where = {"item": item.name, "place": item.place, "caption": words, "n": item.n(frame), "exclusions": item.exclusions, **found}
    return RenderedItem(item, time.monotonic() - start, frame, words, where)


def name_text(a: Atlas, item: Item, choices: Choices) -> Choices:
    """Choose the corpus if none is chosen and only one of several has what the item needs, so that caption and provenance name that one."""
    if choices.get("corpus") is not None or not item.is_of_one_text:
        return choices
    corpora = [corpus for (corpus,) in fetch_rows(a.con, "SELECT c.corpus_id FROM corpus AS c")]
    able = [corpus for corpus in corpora if describe_unmet_need(a.con, str(a.path), item.needs, corpus) is None]
    return {**choices, "corpus": able[0]} if len(able) == 1 < len(corpora) else choices


def table_bytes(made: RenderedItem, suffix: str) -> bytes:
    """Render the file of an item that has rows, in one of TABLE_FORMATS."""
    assert made.frame is not None
    style = Style(made.source, caption=tex(f"{made.caption} {cut_note(made.frame)}".rstrip()), label=f"tab:{made.item.name}")
    return render(made.frame if suffix in WHOLE else printed_table(made.frame, made.item), TABLE_FORMATS[suffix], style)

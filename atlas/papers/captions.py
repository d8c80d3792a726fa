"""Printed form of an item: the columns under their headings, the first rows, and the words around them."""

from collections.abc import Mapping

import duckdb
import polars as pl

from atlas.export.cells import display, plain_rows
from atlas.export.terminal import LEFT_CROPPED
from atlas.frames import fetch
from atlas.notes import note_small_counts
from atlas.papers.items import Item, Paper

ROWS = 40
"""Most rows of a printed table; CSV and Parquet have all."""

TEXT = 28
"""Most characters of a printed cell, so that a table fits on a page."""

TEXTS = """
SELECT c.name, c.split, c.n_positions, s.skip_first, s.distinct_tokens
FROM corpus AS c
LEFT JOIN swept_corpus AS s ON c.corpus_id = s.corpus_id
WHERE $c IS NULL OR c.corpus_id = $c
ORDER BY c.corpus_id
"""

TAILS = {*LEFT_CROPPED, "example"}
"""Columns whose long text is cut at the start, so that its end is shown."""


def printed_table(frame: pl.DataFrame, item: Item) -> pl.DataFrame:
    """Select the rows and columns of a printed table, under their headings; long text is cut with … at the side away from the token."""
    shown = frame.head(ROWS).select(list(item.columns))
    cut = [shorten_cells(shown[c], at_start=c in TAILS) for c in shown.columns if not shown.schema[c].is_numeric()]
    return shown.with_columns(cut).rename(dict(item.columns))


def shorten_cells(cells: pl.Series, *, at_start: bool) -> pl.Series:
    """Shorten cells that are text or lists. The members of a list are first joined, each with its hidden characters visible."""

    def one(cell: object) -> object:
        text = cell if isinstance(cell, str) else display(cell) if isinstance(cell, list) else None
        if text is None or len(text) <= TEXT:
            return cell if text is None else text
        return f"…{text[1 - TEXT :]}" if at_start else f"{text[: TEXT - 1]}…"

    return pl.Series(cells.name, [one(cell) for cell in cells.to_list()])


def caption(frame: pl.DataFrame, item: Item, arguments: Mapping[str, object], setting: str, active: str, others: str = "") -> str:
    """Word the caption: what is shown, with which arguments, over how many, of which model and text.

    It also says what active means in this model, for definitions that rest on ReLU; whether any row averages over few; and `others`: what is left out of the
    file beside the atlas that the question reads.
    """
    given = ", ".join(f"{name} = {value}" for name, value in arguments.items() if value is not None and name != "corpus")
    said = f"Note: {note}" if item.resolved_question and (note := note_small_counts(item.resolved_question, frame)) else ""
    parts = [item.caption(frame), f"Asked with {given}." if given else "", said, f"n: {item.n(frame)}.", setting, active if item.assumes_relu else ""]
    parts.append(others and f"Note: {others}.")
    return " ".join(part for part in parts if part)


def cut_note(frame: pl.DataFrame) -> str:
    """Describe what a printed table leaves out, in a sentence; empty if nothing."""
    return f"The first {ROWS} of {frame.height:,} rows." if frame.height > ROWS else ""


def active_of(con: duckdb.DuckDBPyConnection) -> str:
    """Describe in a sentence what active means in this model, with its threshold; empty for an atlas without a model."""
    rules = fetch(con, "SELECT activation || if(is_gated, ', gated', '') AS activation, active_means FROM active_rule").rows()
    return "".join(f"Active, in this model ({activation}), means {means}." for activation, means in rules)


def setting_of(con: duckdb.DuckDBPyConnection, corpus: object) -> str:
    """Describe the model and the texts in a sentence or two; empty for an atlas without a model."""
    model = plain_rows(fetch(con, "FROM model"))
    if not model:
        return ""
    m = model[0]
    texts = plain_rows(fetch(con, TEXTS, {"c": corpus}))
    of = "; ".join(f"{t['name']} ({t['split']}), {t['n_positions']:,} positions{sweep_of(t)}" for t in texts)
    return f"Model: {m['name']} @ {m['revision']}, {m['n_layers']} layers × {m['d_ffn']:,} neurons." + (f" Text: {of}." if of else "")


def sweep_of(text: Mapping[str, object]) -> str:
    """Describe how the sweep of a text differs from the papers', which leave out nothing; '' if it does not differ."""
    first = f", triggers and statistics from index {text['skip_first']} of each sequence on" if text["skip_first"] else ""
    same = f", of triggers with the same last {text['distinct_tokens']} tokens the best alone" if text["distinct_tokens"] else ""
    return first + same


def comparison(frame: pl.DataFrame, item: Item, paper: Paper) -> list[str]:
    """Return the paper's figure, marked as the paper's, and ours; [] if the paper gives none."""
    if item.headline is None:
        return []
    theirs = f"{paper.authors} report, for {item.model or paper.model}: {item.headline}"
    return [theirs, item.ours(frame)] if item.ours else [theirs]

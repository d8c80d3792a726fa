"""Figures and tables of the papers: the choice of an item, and the item as `atlas paper` makes it."""

import json
import re
from functools import partial

import polars as pl
import streamlit as st

from atlas.papers.captions import comparison, cut_note, printed_table, setting_of
from atlas.papers.catalogue import PAPERS
from atlas.papers.items import Item, Paper, RenderedItem
from atlas.papers.make import make_item, table_bytes
from atlas.papers.needs import describe_unmet_need
from atlas.papers.page import DRAWN_WIDTH
from atlas.ranges import check_arguments
from atlas.statement import statement
from schema.errors import AtlasError
from ui import address_widgets, blocks, data
from ui.snapshot import Snapshot

TABLES = {"LaTeX": "tex", "Markdown": "md", "CSV": "csv", "Parquet": "parquet"}
"""Button → file suffix."""

MAKING = "Making it from this atlas: a second for most items, half a minute or more for early exit (table 6 of 2022) …"


def room() -> None:
    """Show the items of a paper at the left, the chosen one beside them."""
    paper, corpus = choose_paper()
    items, chosen = st.columns([1, 2], gap="large")
    with items:
        item = choose_item(paper, corpus)
    with chosen:
        show(paper, item, corpus)


def choose_paper() -> tuple[Paper, int | None]:
    """Ask for the paper and the corpus_id, None if none is chosen; show the paper's citation and note beneath, and what it is compared with."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        paper = PAPERS[address_widgets.ask_word("Paper", "paper", list(PAPERS), on_change=begin_anew)]
        corpus = address_widgets.ask_corpus(of_one_text=any(item.is_of_one_text for item in paper.items))
    check_arguments(data.atlas().con, {"corpus": corpus})
    st.text(f"{paper.citation}\n{paper.note}")
    st.text(setting_of(data.atlas().con, corpus))
    return paper, corpus


def names(paper: Paper) -> dict[str, Item]:
    """Map the names of items within a paper, as `atlas paper --only` takes them, to the items."""
    return {item.name.removeprefix(f"{paper.name}_"): item for item in paper.items}


def begin_anew() -> None:
    """Choose the first item when the paper changes, so that the address does not keep the item of the former paper."""
    st.session_state["item"] = next(iter(names(PAPERS[st.session_state["paper"]])))


def choose_item(paper: Paper, corpus: int | None) -> Item:
    """Ask for one of the paper's items, each with its place and title and whether this atlas has what it needs."""
    absent = reasons(data.current_snapshot(), paper.name, corpus)
    items = names(paper)
    lines = {name: f"{item.place}: {item.heading}{' (not here)' if absent[item.name] else ''}" for name, item in items.items()}
    return items[address_widgets.ask_from_list("Item", "item", lines)]


@st.cache_data(max_entries=16, show_spinner=False)
def reasons(snapshot: Snapshot, paper: str, corpus: int | None) -> dict[str, str | None]:
    """Map each item of a paper to the reason why this atlas cannot make it, None if it can."""
    a = data.open_atlas(snapshot)
    return {item.name: describe_unmet_need(a.con, a.path.name, item.needs, corpus) for item in PAPERS[paper].items}


@st.cache_resource(max_entries=64, show_spinner=MAKING)
def make(snapshot: Snapshot, paper: str, name: str, corpus: int | None, threshold: float | None) -> RenderedItem:
    """Make an item from this atlas. The result is shared between visitors, so nobody may change it."""
    item = next(item for item in PAPERS[paper].items if item.name == name)
    return make_item(data.open_atlas(snapshot), item, {"corpus": corpus, "threshold": threshold})


def show(paper: Paper, item: Item, corpus: int | None) -> None:
    """Show an item with everything that `atlas paper` writes for it, or the reason why it cannot be made."""
    st.header(item.heading)
    st.text(f"{item.place} · {item.name}")
    reason = reasons(data.current_snapshot(), paper.name, corpus)[item.name]
    if reason:
        wait(reason)
        return
    threshold = choose_threshold(item)
    made = make(data.current_snapshot(), paper.name, item.name, corpus, threshold)
    if made.frame is not None:
        draw(paper, made, made.frame)
        take_away(made, made.frame, {"corpus": corpus, "threshold": threshold})
    elif made.is_failure:
        blocks.failure(AtlasError(made.reason))
    else:
        blocks.explain_empty(f"{made.reason}.")


def draw(paper: Paper, made: RenderedItem, frame: pl.DataFrame) -> None:
    """Show all that is printed of an item."""
    chart(made.item, frame)
    st.text(made.caption)
    show_comparison(paper, made.item, frame)
    table(made.item, frame)


def choose_threshold(item: Item) -> float | None:
    """Ask for the threshold of an item, in logits; None if the item has no threshold."""
    default = item.arguments({}).get("threshold")
    if not isinstance(default, float):
        return None
    threshold = address_widgets.ask_number("Threshold (logits)", "threshold", default, min_value=0.0, width=200)
    return default if threshold is None else threshold


def wait(reason: str) -> None:
    """Show what is missing, and the commands that fill it."""
    what, _, commands = reason.partition(": `")
    blocks.explain_empty(f"Not here yet: {what}.", "\n".join(re.findall(r"[^`]+(?=`)", commands)[::2]))


def chart(item: Item, frame: pl.DataFrame) -> None:
    """Show the figure as it is printed, at the size that it has in index.html, with letters of 8 pt."""
    if item.chart is None:
        return
    drawn = item.chart(frame)
    st.html(f"<style>.st-key-printed svg{{width:{DRAWN_WIDTH[drawn.width]}px;height:auto;max-width:100%}}</style>")
    with st.container(key="printed"):
        st.altair_chart(drawn, theme=None, width="content", key=f"{item.name}-chart", alt=item.heading)


def show_comparison(paper: Paper, item: Item, frame: pl.DataFrame) -> None:
    """Show the paper's result, marked as the paper's, beside the same result of this atlas; below them, say what the item leaves out."""
    lines = comparison(frame, item, paper)
    for column, name, line in zip(st.columns(2) if lines else [], ("In the paper", "Here"), lines, strict=False):
        with column.container(border=True, height="stretch"):
            st.subheader(name)
            st.text(line)
    st.text(f"Left out: {item.exclusions}.")


def table(item: Item, frame: pl.DataFrame) -> None:
    """Show the rows as they are printed."""
    meanings = item.resolved_question.columns if item.resolved_question else {}
    headings = {heading: meanings.get(column, "") for column, heading in item.columns.items()}
    shown = printed_table(frame, item)
    blocks.grid(shown, frame.head(shown.height), f"{item.name}-table", item.heading, headings)
    if cut_note(frame):
        st.text(f"{cut_note(frame)} CSV and Parquet hold all.")


def take_away(made: RenderedItem, frame: pl.DataFrame, choices: dict[str, object]) -> None:
    """Show the SQL of an item, or its source if no question makes it, and offer the files that `atlas paper` writes."""
    item = made.item
    with st.container(horizontal=True, gap="small"):
        if item.resolved_question:
            blocks.show_sql(statement(item.resolved_question, item.arguments(choices)), item.name)
        else:
            with st.popover("Source", icon=":material/code:", key=f"{item.name}-source"):
                st.code(item.sql, language=None, wrap_lines=True)
        blocks.offer(files(made, frame), item.name)


def files(made: RenderedItem, frame: pl.DataFrame) -> blocks.Files:
    """Map each button to its file, as `atlas paper` writes it."""
    name = made.item.name
    figures = blocks.figure_files(name, made.item.chart(frame)) if made.item.chart else {}
    tables = {label: (f"{name}.{suffix}", partial(table_bytes, made, suffix)) for label, suffix in TABLES.items()}
    source = json.dumps(made.source, ensure_ascii=False, indent=2).encode()
    return {**figures, **tables, "Provenance": (f"{name}.provenance.json", lambda: source)}

"""Single searches: the form of each, and its results, a page at a time."""

from dataclasses import replace

import polars as pl
import streamlit as st

from atlas.arguments import bind
from atlas.beside.collections.filtering import restrict_to_collection
from atlas.frames import fetch
from atlas.neuron_search import COLUMNS, Range, Search
from atlas.neuron_search import statement as range_statement
from atlas.pages import count_rows, page_of
from atlas.questions import question
from atlas.ranges import check_arguments, missing_run
from atlas.statement import statement
from schema.terms import DENSITIES
from ui import address_widgets, blocks, data
from ui.data import Answer
from ui.snapshot import Snapshot

ROWS, ALL = 50, 1_000_000_000
"""Rows of a page, and a number above the rows of any answer."""

BY = {
    "promoted token": ("neurons_promoting", "Token that the value promotes", "No value has this token among those that it promotes most."),
    "suppressed token": ("neurons_suppressing", "Token that the value suppresses", "No value has this token among those that it suppresses most."),
    "trigger": ("neurons_triggered_by", "Token that the key's triggers end in", "No key has a trigger that ends in this token."),
    "token after": ("neurons_triggered_before", "Token that follows the key's triggers", "No key has a trigger that this token follows."),
    "words": ("neurons_with_words", "Words in the texts of the key's triggers", "No key has a trigger with these words."),
}
"""Kind of search → its question, the label of its field, and the note if nothing is found."""

RANGES, DENSITY = "ranges", "density"
"""The other kinds of search: by the neurons' own numbers, and by how often their keys fire."""

TAILS = {"both": None, "largest": "max", "smallest": "min"}

NAMES = {"layer": COLUMNS["layer"], "neuron": COLUMNS["neuron"], "value_top_token": "The token that the value promotes most."}
CORPUS = {"corpus_id": "The corpus that the statistics are over; null without a sweep."}

HINTS = {
    "token": "Type a token. Its leading space is optional: cat finds ␣cat too. Upper and lower case differ.",
    "words": "Type words. The exact text is searched for, ignoring case, in a trigger and the 80 characters before it.",
}
"""Parameter → what to type."""

NO_SWEEP = "No text has been swept yet, and only a sweep finds the triggers of keys and how often they fire.", "atlas ingest NAME.duckdb --model … --corpus …"


def search() -> None:
    """Show the widgets of a search, whose values are all stored in the address, and its results."""
    by = address_widgets.ask_word("Search by", "by", [*BY, DENSITY, RANGES])
    if by == RANGES:
        show(by_ranges(), "No neuron lies within these ranges.")
    elif by == DENSITY:
        if found := by_density():
            show(found, "No key fires that often.")
    elif found := by_text(by):
        show(found, BY[by][2])


def by_text(by: str) -> Answer | None:
    """Ask for the text of a search. Return its question with the arguments, and no rows yet; None if there is nothing to ask."""
    name, label, _ = BY[by]
    q = question(name)
    term, *others = (p.name for p in q.parameters)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input(label, key="term", bind="query-params", width=420)
        tail = (
            {"tail": TAILS[address_widgets.ask_word("Coefficients", "tail", list(TAILS))], "corpus": address_widgets.ask_corpus()} if "tail" in others else {}
        )
    con = data.atlas().con
    if missing_run(con, q.sql):
        blocks.explain_empty(*NO_SWEEP)
        return None
    if not text:
        blocks.explain_empty(HINTS[term])
        return None
    arguments = bind(q, (), {term: text, "n": ALL, **tail})
    check_arguments(con, arguments, q.sql)
    return Answer(q.sentence, pl.DataFrame(), statement(q, arguments), q.columns, name, arguments)


def by_density() -> Answer | None:
    """Ask how often keys are to fire. Return the question with its arguments, and no rows yet; None if the atlas does not know how often keys fire."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        density, corpus = address_widgets.ask_word("Keys that are", "density", DENSITIES, "rare"), address_widgets.ask_corpus()
    q = question("neurons_by_density")
    if missing_run(data.atlas().con, q.sql):
        blocks.explain_empty(*NO_SWEEP)
        return None
    arguments = bind(q, (), {"density": density, "corpus": corpus, "n": ALL})
    check_arguments(data.atlas().con, arguments, q.sql)
    return Answer(q.sentence, pl.DataFrame(), statement(q, arguments), q.columns, q.name, arguments)


def by_ranges() -> Answer:
    """Ask for ranges of numbers. Return their statement, and no rows yet."""
    columns = address_widgets.ask_words("Numbers within a range", "columns", list(COLUMNS), placeholder="Any number of a neuron")
    ranges = {column: ends(column) for column in columns}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        order = address_widgets.ask_option("Order by", "order", list(COLUMNS), "value_max_prob", width=240)
        descending = address_widgets.ask_toggle("Largest first", "descending", True)
        corpus = address_widgets.ask_corpus()
    check_arguments(data.atlas().con, {"corpus": corpus})
    shown = {**NAMES, **{column: COLUMNS[column] for column in [*columns, order]}, **COLUMNS, **CORPUS}
    return Answer("Neurons by their numbers.", pl.DataFrame(), range_statement(Search(ranges, order, descending, corpus)), shown)


def ends(column: str) -> Range:
    """Ask for the ends of a range: either may stay empty."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        low = address_widgets.ask_number(f"{column} from", f"{column}_from", help=COLUMNS[column], placeholder="any", width=240)
        return low, address_widgets.ask_number("to", f"{column}_to", placeholder="any", width=240)


@st.cache_data(max_entries=256, show_spinner="Counting …")
def count_results(snapshot: Snapshot, sql: str) -> int:
    return count_rows(data.open_atlas(snapshot).con, sql)


@st.cache_data(max_entries=256, show_spinner="Searching …")
def read_rows(snapshot: Snapshot, sql: str) -> pl.DataFrame:
    return fetch(data.open_atlas(snapshot).con, sql)


def of_collection(everything: Answer) -> Answer:
    """Narrow an answer to the collection that the address names, if it names one. A widget to choose a collection is shown if there are any."""
    names = data.collections().frame["name"].to_list()
    if not names and not st.query_params.get("collection"):
        return everything
    name = address_widgets.ask_option("Only in collection", "collection", ["any", *names], "any", width=240)
    return everything if name == "any" else replace(everything, sql=restrict_to_collection(everything.sql, ["layer", "neuron"], name))


def show(everything: Answer, note: str) -> None:
    """Show a page of the rows that a statement finds; `note` if it finds none."""
    everything, snapshot = of_collection(everything), data.current_snapshot()
    n = count_results(snapshot, everything.sql)
    begin_anew(everything.sql)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(f"{n:,} found." if n else "")
        page = address_widgets.ask_page(max(-(-n // ROWS), 1), "results")
    sql = page_of(everything.sql, ROWS, page)
    here = replace(everything, frame=read_rows(snapshot, sql), sql=sql, whole=lambda: replace(everything, frame=read_rows(snapshot, everything.sql)))
    blocks.table(here, "found", columns=list(everything.columns), height=560, note=note)


def begin_anew(sql: str) -> None:
    """Go back to the first page if the search has changed."""
    if st.session_state.get("searched", sql) != sql and "results" in st.session_state:
        st.session_state["results"] = 1
    st.session_state["searched"] = sql

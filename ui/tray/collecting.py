"""Form that adds rows to a collection, with a tick box for each row; any list offers it."""

from collections.abc import Callable

import polars as pl
import streamlit as st

from atlas.beside.collections import keeping
from atlas.beside.collections.members import Member, in_rows
from schema.errors import AtlasError
from ui import data

MOST_TICKED = 200
"""Maximum number of rows with a tick box each; of a longer list, all rows are added."""

Offered = list[Member]


def find_members(rows: pl.DataFrame) -> Offered:
    """Find the things that rows name; an empty list if they name nothing that can be collected."""
    try:
        return in_rows(rows)
    except AtlasError:
        return []


def offer(rows: pl.DataFrame, key: str) -> None:
    """Offer a button that opens a form: the rows, each with a tick box, and their collection. Rows that name nothing to collect have no button."""
    things = find_members(rows)
    if things and st.button("Add to collection…", icon=":material/bookmark_add:", key=f"{key}-collect"):
        collect(things, key)


def offer_all(ask: Callable[[], pl.DataFrame], key: str) -> None:
    """Offer a button as `offer` does, but for rows that are not shown; they are read only when the button is pressed."""
    if st.button("Add all to collection…", icon=":material/bookmark_add:", key=f"{key}-collect-all"):
        collect(find_members(ask()), key)


@st.dialog("Add to a collection")
def collect(things: Offered, key: str) -> None:
    form(things, key)


def form(things: Offered, key: str) -> None:
    """Ask which of the things to add, and to which collection."""
    names = data.collections().frame["name"].to_list()
    with st.form(f"{key}-collecting", border=False):
        ticked = ticks(things, key) if len(things) <= MOST_TICKED else things
        if len(things) > MOST_TICKED:
            st.text(f"All {len(things):,}.")
        name = st.text_input("Collection", placeholder="the name of a new or an existing collection", key=f"{key}-collection")
        if names:
            st.text(f"Existing collections: {', '.join(names)}")
        note = st.text_input("What a new one is of", key=f"{key}-note")
        by = st.text_input("Your name", key=f"{key}-by", value=st.session_state.get("collector", ""))
        if st.form_submit_button("Add"):
            st.session_state["collector"] = by
            keep(ticked, name, by, "" if name.strip().lower() in map(str.lower, names) else note)


def ticks(things: Offered, key: str) -> Offered:
    """Show the rows with a tick box each, all ticked at first; return the rows that are ticked."""
    rows = pl.DataFrame({"add": [True] * len(things), "what": [str(thing) for thing in things]})
    edited = st.data_editor(rows, key=f"{key}-ticks", hide_index=True, disabled=["what"], height=min(36 * (len(things) + 1), 260), width="stretch")
    return [thing for thing, is_in in zip(things, edited["add"], strict=True) if is_in]


def keep(things: Offered, name: str, by: str, note: str) -> None:
    """Add the things to a collection and report how many were added; show an error instead if there is one."""
    a = data.atlas()
    try:
        n, n_there = keeping.add(a.con, a.path, name, things, by=by, note=note)
    except AtlasError as error:
        st.code(str(error), language=None, wrap_lines=True)
        return
    st.success(f"{n:,} added{f', {n_there:,} were in it already' if n_there else ''}.")

"""Panel of collections: a list of all, and the members of one, each a link."""

from html import escape

import streamlit as st

from atlas.beside.collections.bounds import require_small
from ui import blocks, data, frame, links
from ui.links import Link

COLUMNS = ["name", "n_members", "note", "made_by", "changed_at"]

MEMBERS = ["kind", "layer", "neuron", "head", "position_id", "token_id", "text", "note", "added_by", "added_at"]


def page() -> None:
    """Show all collections, or the one that the address names."""
    name = st.query_params.get("collection", "")
    if name:
        show_collection(name)
        return
    found = data.collections()
    if found.frame.is_empty():
        blocks.explain_empty(
            "There are no collections yet. The button “Add to collection…” beneath a list adds to one.",
            "atlas collection add NAME L20N100 --by YOU --db NAME.duckdb",
        )
        return
    n = found.frame.height
    st.text("There is one collection." if n == 1 else f"There are {n:,} collections.")
    st.html("".join(line(row) for row in found.frame.select(COLUMNS).iter_rows(named=True)))
    blocks.take_away(found, "collections")


def line(row: dict[str, object]) -> str:
    """Write a collection as a link, with its size, its note, its maker and the time of its last change."""
    said = f"{row['n_members']:,} · {row['note'] or '–'} · {row['made_by']}, {row['changed_at']}"
    name = str(row["name"])
    return f"<div>{links.anchor(collection_link(name), f'<bdi>{escape(name)}</bdi>')} <bdi>{escape(blocks.cut_cell(said))}</bdi></div>"


def collection_link(name: str) -> Link:
    """Link to the view of a collection."""
    return links.evidence("collections", collection=name)


def show_collection(name: str) -> None:
    """Show the members of a collection. Raises AtlasError if there is none of that name."""
    st.html(links.anchor(links.evidence("collections"), "All collections"))
    require_small(data.atlas().con, name)
    found = data.ask("in_collection", collection=name)
    frame.show_heading(name, 2)
    st.text(f"{found.frame.height:,} members.")
    for kind in ("neuron", "head", "position", "token"):
        part = found.frame.filter(kind=kind)
        if not part.is_empty():
            st.subheader(f"{kind.capitalize()}s", anchor=False)
            shown = [c for c in MEMBERS if c != "kind" and not part[c].is_null().all()]
            blocks.grid(part.select(shown), part.select(shown), f"members-{kind}", f"{kind}s of {name}", found.columns)
    blocks.take_away(found, "members")

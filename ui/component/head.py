"""View of an attention head: a summary of where it looks and what it writes, and tabs with the rest, whose questions are asked when a tab is opened."""

from collections.abc import Callable

import altair as alt
import polars as pl
import streamlit as st

from atlas.address import Head
from atlas.charts import OKABE_ITO
from ui import address_widgets, blocks, charts, data, links
from ui.component import choosing, front, panels

TABS = {
    "tokens": "Reads and writes", "behaviours": "Where it looks", "distance": "How far back", "neighbours": "Heads like it", "circuits": "Composition",
    "positions": "Where it mattered", "numbers": "Numbers",
}  # fmt: skip
"""`tab` in the address → label of the tab."""

N_NEAR = 5
"""Similar heads in the summary."""

UNMEASURED = (
    "What heads look at has not been measured, or this is the only head.",
    front.MEASURE_HEADS,
)

UNMOVED = "What this head adds to logits is not stored for any traced position."

CIRCUITS = {"ov": "What it reads and writes", "qk": "What asks, and what is looked at"}


def show(where: Head) -> None:
    """Show all of a head: its summary, and the tab that the address names."""
    glance(where)
    OPENED[choosing.tab(where, TABS)](where)


def glance(where: Head) -> None:
    """Show the summary: where the head looks, and what its weights read and write."""
    here = where._asdict()
    cards, behaviours = (data.ask(name, **here).frame.to_dicts() for name in ("head_card", "head_behaviours"))
    near = [Head(*place) for place in data.ask("nearest_heads", **here).frame.head(N_NEAR).select("layer", "head").iter_rows()]
    alike = [links.anchor(links.component(other), str(other)) for other in near]
    st.html(
        front.head(cards[0] if cards else None, behaviours, data.ask("head_tokens", **here).frame.to_dicts(), alike, data.of_this_atlas(front.MEASURE_HEADS))
    )


def tokens(where: Head) -> None:
    """Show the singular directions of both circuits, in the vocabulary."""
    if not panels.check_question_available("head_tokens"):
        return
    for circuit, heading in CIRCUITS.items():
        st.header(heading, anchor=False)
        found = data.ask("head_tokens", **where._asdict(), circuit=circuit)
        blocks.table(found, f"head_tokens-{circuit}", columns=["direction_rank", "side", "share", "top", "bottom", "sigma", "gap"])


def composition(where: Head) -> None:
    """Show which heads this head reads, and which heads read it."""
    kind = address_widgets.ask_word("Through what the later head reads", "kind", ["k", "q", "v"])
    for column, heading, name in zip(st.columns(2), ("Reads from", "Read by"), ("composition_into", "composition_from"), strict=True):
        with column:
            st.header(heading, anchor=False)
            panels.rows(name, "No head of another layer.", **where._asdict(), kind=kind)


def distance(where: Head) -> None:
    if panels.check_question_available("attention_distance_profile"):
        found = data.ask("attention_distance_profile", **where._asdict())
        blocks.figure(distances(found.frame), found, "distance")


def neighbours(where: Head) -> None:
    """Show the heads whose measured attention is most like this one's."""
    found = data.ask("nearest_heads", **where._asdict())
    if found.frame.is_empty():
        blocks.explain_empty(*UNMEASURED)
        return
    st.text(front.describe_nearest(found.frame.row(0, named=True)))
    blocks.table(found, "nearest_heads", height=460)


def distances(bins: pl.DataFrame) -> charts.AnyChart:
    """Draw a bar for the attention at each distance, and a tick where equal weights would put it. bins: rows of the question attention_distance_profile."""
    ends = bins.select("first_distance", "last_distance").iter_rows()
    shown = bins.with_columns(pl.Series("back", [f"{a}" if a == b else f"{a} to {b}" for a, b in ends]))
    base = alt.Chart(shown).encode(x=alt.X("back:O", sort=None, title="Tokens back", axis=alt.Axis(labelAngle=0, labelOverlap=True)))
    tip = [
        alt.Tooltip("back:N", title="tokens back"),
        alt.Tooltip("share:Q", format=".2%"),
        alt.Tooltip("uniform_share:Q", title="equal weights", format=".2%"),
    ]
    bars = base.mark_bar(color=OKABE_ITO[0]).encode(y=alt.Y("share:Q", title="Share of attention", axis=alt.Axis(format="%")), tooltip=tip)
    equal = base.mark_tick(color=OKABE_ITO[1], thickness=2).encode(y=alt.Y("uniform_share:Q", title=""), tooltip=tip)
    return alt.layer(bars, equal).properties(height=charts.PANEL * 1.3)


OPENED: dict[str, Callable[[Head], None]] = {
    "tokens": tokens,
    "behaviours": lambda where: panels.rows("head_behaviours", blocks.NOTHING, **where._asdict()),
    "distance": distance,
    "neighbours": neighbours,
    "circuits": composition,
    "positions": lambda where: panels.rows("head_positions", UNMOVED, **where._asdict()),
    "numbers": lambda where: panels.card("head_card", **where._asdict()),
}
"""Tab → function that draws it."""

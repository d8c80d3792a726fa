"""The prediction page's parts: which position, its text, how its prediction is built, and the sub-updates of one layer."""

import re
from functools import partial

import polars as pl
import streamlit as st

from atlas.ranges import check_below
from schema.errors import AtlasError
from ui import blocks, data, lens, links, prediction_charts
from ui.evidence.events import is_traced
from ui.tokens import facts
from ui.tray import drawn

N_LISTED = 500
"""Traced positions in the list."""

LISTED = ["text_before", "token", "final_token", "final_prob", "next_token", "next_token_rank", "document"]

SCORED = [
    "neuron", "candidate_score", "candidate_frozen_score", "final_score", "final_frozen_score", "next_score", "next_frozen_score", "coefficient", "share",
    "promotes",
]  # fmt: skip

HEADINGS = {1: "Promote the candidate", -1: "Demote the candidate", 0: "Leave the candidate as it is"}
"""Sign of what is added to the candidate's logit → what a sub-update does."""


def choose() -> int | None:
    """The position, kept in the address; None if none is asked for. Raises AtlasError for what is no number."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        typed = st.text_input("Position", key="position", bind="query-params", placeholder="position_id", width=180).strip()
        if typed:
            st.html(links.anchor(links.Link(links.PREDICTION), "All traced positions"))
    if typed and not re.fullmatch(r"[0-9]{1,15}", typed):
        raise AtlasError(f"no position {typed}: positions are whole numbers from 0, and those that are traced are listed where none is given")
    return int(typed) if typed else None


def listing() -> None:
    """The traced positions, to choose one from."""
    if not is_traced():
        return
    words = st.text_input("Text contains", key="words", bind="query-params", placeholder="any text").strip(" ")
    found = data.ask("traced_positions", words=words or None, n=N_LISTED)
    st.text(f"The first {N_LISTED:,} of them." if found.frame.height == N_LISTED else "")
    blocks.table(found, "traced_positions", columns=LISTED, height=600, note="No traced position has this in the text before it.")


def context(position: int, last: dict[str, object]) -> None:
    """The text about the position, the traced positions in it, and what came of this one; `last` is the last row of its trace."""
    around = data.ask("position_tokens", at_position=position)
    place = data.ask("token_context", position_ids=[position]).frame.row(0, named=True)
    st.html(lens.CSS)
    st.html(lens.passage(around.frame.iter_rows(named=True)))
    st.html(lens.outcome(last, [place["document"], *facts(place["metadata"]), f"place {place['index']} in its sequence"]))
    others = (around.frame["is_traced"] & ~around.frame["is_asked"]).arg_true().to_list()
    if not others:
        blocks.take_away(around, "position_tokens", drawn=partial(drawn.passage, around.frame))
        return
    st.text("The traced positions nearby, underlined above.")
    blocks.table(
        around, f"position_tokens-{position}", columns=["position_id", "token", "final_token"], rows=others, drawn=partial(drawn.passage, around.frame)
    )


def grid(position: int, trace: data.Answer) -> data.Answer:
    """The leading token at every site, with the events, which are returned."""
    events = data.ask("position_events", position_id=position)
    st.html(lens.grid(trace.frame.iter_rows(named=True), lens.marks(events.frame.iter_rows(named=True))))
    blocks.take_away(trace, "grid", drawn=partial(drawn.grid, trace.frame, events.frame))
    st.subheader("Events at this position")
    blocks.table(events, f"position_events-{position}", note="No FFN settles the prediction or takes a candidate down here.")
    return events


@blocks.alone
def dominant(position: int, n_layers: int, trace: pl.DataFrame, events: data.Answer) -> None:
    """A layer to choose, and its dominant sub-updates."""
    sub_updates(position, choose_layer(position, n_layers, events), trace)


def choose_layer(position: int, n_layers: int, events: data.Answer) -> int:
    """The layer that is opened, kept in the address; beside it links to the layers with events that the paper counts."""
    opened = st.query_params.get("open", f"L{n_layers - 1}")
    number = opened.upper().removeprefix("L")
    check_below(int(number) if number.isdecimal() else opened, "layer", n_layers)
    key = f"layer-{opened}"
    counted = events.frame.filter("is_counted").iter_rows(named=True)
    leads = [
        links.anchor(links.prediction(position, open=f"L{e['layer']}"), f"{lens.SIGNS[e['event'], True]} {e['event']} in layer {e['layer']}") for e in counted
    ]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.number_input("Layer", 0, n_layers - 1, int(number), key=key, width=120, on_change=lambda: open_layer(st.session_state[key]))
        if leads:
            st.html(" · ".join(leads))
    return int(number)


def open_layer(layer: int) -> None:
    st.query_params["open"] = f"L{layer}"


def sub_updates(position: int, layer: int, trace: pl.DataFrame) -> None:
    """The dominant sub-updates of a layer: what they do to its candidate, as a chart and as tables."""
    updates = data.ask("dominant_sub_updates", position_id=position, layer=layer)
    st.html(lens.scored(trace.row(by_predicate=(pl.col("layer") == layer) & (pl.col("site") == "resid_mid"), named=True)))
    blocks.figure(prediction_charts.scores(updates.frame), updates, f"scores-{position}-{layer}")
    st.text(score_note(updates.frame))
    signs = updates.frame[f"candidate_{prediction_charts.score_of(updates.frame)}"].sign()
    for sign, heading in HEADINGS.items():
        rows = (signs == sign).arg_true().to_list()
        if rows or sign:
            st.subheader(heading)
            part(updates, rows, f"updates-{position}-{layer}-{sign}")


def score_note(updates: pl.DataFrame) -> str:
    """What both kinds of score are; the frozen-norm ones only where the trace has them."""
    if prediction_charts.score_of(updates) == "score":
        return "Scores are raw, m·(e·v). What sub-updates add to a logit (frozen norm) is not stored: the trace is older. A trace of more positions has it."
    return "A score is raw, m·(e·v); a frozen score is what the sub-update adds to the token's logit, the final norm's scale held."


def part(updates: data.Answer, rows: list[int], key: str) -> None:
    if rows:
        blocks.table(updates, key, columns=SCORED, rows=rows)
    else:
        blocks.empty("None of the dominant sub-updates does.")

"""Do FFNs build predictions by promoting or by eliminating? Table 4 and figure 3 of Geva et al. 2022, and the events behind them."""

import streamlit as st

from atlas.papers import geva2022_charts
from atlas.papers.geva2022 import table4_input
from atlas.papers.words import input_eliminations
from ui import asked, blocks, data

KINDS = {
    "saturation": ("saturation_events", ["final_token", "final_prob_before", "final_prob_after", "final_rank_before", "former_token"]),
    "elimination": ("elimination_events", ["candidate", "is_input_token", "candidate_prob_before", "candidate_rank_after", "new_top_token"]),
}
"""Event → its question, and the columns that only this kind has."""

MEANINGS = {
    "saturation": "An FFN, before the last layer, lifts the final prediction to the top, where it stays. Those first that gain most probability.",
    "elimination": "An FFN takes the top candidate down; of each position the largest fall. Those first whose candidate falls furthest. "
    "Where is_input_token is set, the candidate is the very token that was just read, which leads in the first layers where the embeddings are tied.",
}

NO_TRACE = "No position of this atlas has been traced yet."


def is_traced() -> bool:
    """Whether any position is traced; if not, what to run is said."""
    if data.status().corpora["n_traced"].sum():
        return True
    blocks.empty(NO_TRACE, "atlas ingest NAME.duckdb --model … --corpus … --trace 300")
    return False


@blocks.alone
def listing(corpus: int | None) -> None:
    """The events, filtered by widgets that are kept in the address, each opening its prediction."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = asked.word("Event", "event", list(KINDS))
        layer = asked.number("Layer", "event_layer", value=None, placeholder="all", width=140)
        n = asked.number("How many", "events", value=25, width=140)
    name, own = KINDS[kind]
    found = data.ask(name, layer=layer, corpus=corpus, n=n)
    st.text(MEANINGS[kind])
    columns = ["layer", "text_before", "token", *own, "next_token", "document"]
    blocks.table(found, f"events-{kind}", columns=columns, height=500, note=f"No {kind} here.")


def page() -> None:
    """All of it."""
    if not is_traced():
        return
    corpus = asked.corpus()

    st.header("What sub-updates do at an event")
    left, right = st.columns(2)
    table4 = data.ask("promotion_vs_elimination", corpus=corpus)
    with left:
        blocks.figure(geva2022_charts.table4(table4.frame), table4, "table4")
    with right:
        blocks.table(table4, "table4-rows")
        st.text(table4_input(table4.frame).strip())

    st.header("What they do to the candidate, layer by layer")
    fig3 = data.ask("geva2022_fig3", corpus=corpus)
    blocks.figure(geva2022_charts.fig3(fig3.frame), fig3, "fig3")

    st.header("Events in each layer")
    by_layer = data.ask("geva2022_events", corpus=corpus)
    blocks.figure(geva2022_charts.events(by_layer.frame), by_layer, "by-layer")
    st.text(input_eliminations(by_layer.frame, "n_eliminations", "n_input_eliminations"))

    st.header("The events")
    listing(corpus)

"""Do FFNs build predictions by promoting or by eliminating? Table 4 and figure 3 of Geva et al. 2022, and the events behind them."""

import streamlit as st

from atlas.papers import geva2022_charts
from atlas.papers.geva2022 import table4_input
from atlas.papers.words import input_eliminations
from ui import asked, blocks, data
from ui.evidence import events

st.title("Promotion and elimination")
if not events.is_traced():
    st.stop()
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
events.listing(corpus)

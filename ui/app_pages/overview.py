"""Contents of this atlas, and measures of its layers."""

import streamlit as st

from ui import blocks, charts, data, frame, overview

status = data.status()
frame.title(overview.title(status))
if status.model.is_empty():
    blocks.explain_empty("No model has been read into this atlas yet.", "atlas ingest NAME.duckdb --model … --corpus …")
    st.stop()
st.text(overview.model_line(status))
blocks.facts(overview.facts(status))

st.header("Corpora")
blocks.table(data.ask("corpus_summary"), "corpora", columns=overview.CORPUS_COLUMNS, note="No corpus yet: atlas ingest with --corpus reads one.")

st.header("Layers")
layers = data.ask("layer_summary")
measures = overview.available_measures(layers.frame)
st.html(charts.GRID)
with st.container(key="profiles"):
    for column, heading in measures.items():
        st.altair_chart(charts.profile(layers.frame, column, heading), key=column, width="stretch", alt=heading)
blocks.take_away(layers, "profiles-chart", charts.profiles(layers.frame, measures))

st.header("Runs")
blocks.table(data.runs(), "runs")

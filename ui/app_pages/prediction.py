"""One prediction: its text, the leading token at every site, and what the dominant sub-updates do; without a position, those to choose from."""

import streamlit as st

from ui import blocks, data
from ui.prediction import charts, panels

model = data.model()
position = panels.choose()
if position is None:
    st.title("Traced predictions")
    panels.listing()
    st.stop()
st.title(f"Prediction at position {position}")
trace = data.ask("prediction_trace", position_id=position)
panels.context(position, trace.frame.row(-1, named=True))

st.header("The leading token at every site")
events = panels.grid(position, trace)

st.header("The final token and the next one through the layers")
left, right = st.columns(2)
with left:
    blocks.figure(charts.ranks(trace.frame), trace, "ranks")
with right:
    blocks.figure(charts.probs(trace.frame), trace, "probs")

st.header("Dominant sub-updates of a layer")
panels.dominant(position, model["n_layers"], trace.frame, events)

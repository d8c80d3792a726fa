"""One prediction: its text, the leading token at every site, and what the dominant sub-updates do; without a position, those to choose from."""

import streamlit as st

from ui import blocks, data, frame, prediction, prediction_charts

model = data.model()
position = prediction.choose()
if position is None:
    frame.title("Traced predictions")
    prediction.listing()
    st.stop()
frame.title(f"Prediction at position {position}")
trace = data.ask("prediction_trace", position_id=position)
prediction.context(position, trace.frame.row(-1, named=True))

st.header("The leading token at every site")
events = prediction.grid(position, trace)

st.header("The final token and the next one through the layers")
left, right = st.columns(2)
with left:
    blocks.figure(prediction_charts.ranks(trace.frame), trace, "ranks")
with right:
    blocks.figure(prediction_charts.probs(trace.frame), trace, "probs")

st.header("Dominant sub-updates of a layer")
prediction.dominant(position, model["n_layers"], trace.frame, events)

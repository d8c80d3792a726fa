"""One neuron: the texts that trigger its key, the tokens its value promotes."""

import streamlit as st

from schema.errors import AtlasError
from ui import asked, blocks, charts, data, frame, links
from ui.component import annotating, neuron

model = data.model()
try:
    where = neuron.choose(model["n_layers"], model["d_ffn"])
except AtlasError as error:
    frame.title("No such component")
    blocks.failure(error)
    st.stop()
if where is None:
    frame.title("Components")
    blocks.empty("Every neuron and attention head has a view of its own; its address ends in at=L20N100 for a neuron, at=L7H3 for a head.")
    st.stop()
frame.title(str(where), keep=links.component(where))

st.header("What triggers the key")
width = asked.word("Tokens before the trigger", "context", list(neuron.WIDTHS), default="snippet")
neuron.triggers(where, neuron.WIDTHS[width])

left, right = st.columns(2)
with left:
    st.header("What the value promotes")
    columns = ["direction", "rank", "token", "score", "prob"]
    blocks.table(data.ask("value_tokens", layer=where.layer, neuron=where.neuron), "value_tokens", columns=columns, height=400)
    st.header("Nearest values")
    blocks.table(data.ask("nearest_values", layer=where.layer, neuron=where.neuron), "nearest_values", height=400)
with right:
    st.header("Coefficients")
    histogram = data.ask("coefficient_histogram", layer=where.layer, neuron=where.neuron)
    blocks.figure(charts.histogram(histogram.frame), histogram, "histogram")
    st.header("Norms and cosines")
    blocks.card(data.ask("neuron_card", layer=where.layer, neuron=where.neuron), "neuron_card")
st.header("Samples of its coefficients")
samples = data.ask("coefficient_samples", layer=where.layer, neuron=where.neuron)
blocks.table(samples, "coefficient_samples", note="No traced position keeps a coefficient of this neuron: it is never among the largest of its layer there.")

st.header("Annotations")
annotating.annotations(where)

"""One component, a neuron or an attention head: what it does at a glance, and the rest under tabs."""

import streamlit as st

from atlas.address import Neuron
from schema.errors import AtlasError
from ui import blocks, data, frame, links
from ui.component import choosing, front, head, neuron

model = data.model()
try:
    where = choosing.read_component(model)
except AtlasError as error:
    frame.title("No such component")
    blocks.failure(error)
    st.stop()
if where is None:
    frame.title("Components")
    st.html(choosing.begin(model))
    st.stop()
st.html(front.CSS)
with st.container(horizontal=True, vertical_alignment="center"):
    frame.title(str(where), keep=links.component(where))
    st.html(choosing.steps(where, model), width="content")
if isinstance(where, Neuron):
    neuron.show(where)
else:
    head.show(where)

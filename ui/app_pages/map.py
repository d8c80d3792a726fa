"""The plane of values, or of traced states: squares from afar, points from near, and what they promote."""

import streamlit as st

from ui import blocks, data, frame
from ui.map import room

with st.container(horizontal=True, vertical_alignment="bottom"):
    layout = room.choose_layout()
    layer = room.choose_layer()
    found = room.find_on_map(layout, layer)
    area = room.read_area()
    everything = room.layout_extent(layout)
    if everything is not None:
        room.buttons(area, everything)
frame.title(room.TITLES[layout])
if everything is None:
    blocks.explain_empty(*room.LACKING[layout])
    st.stop()
st.text(room.MEANINGS[layout])
room.show(layout, layer, area, everything, data.model()["n_layers"], found)

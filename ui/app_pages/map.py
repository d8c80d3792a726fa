"""The plane of values, or of traced states: cells from afar, points from near, and what they promote."""

import streamlit as st

from ui import blocks, data, frame, map

with st.container(horizontal=True, vertical_alignment="bottom"):
    layout = map.choose_layout()
    layer = map.choose_layer()
    area = map.chosen()
    everything = map.whole(layout)
    if everything is not None:
        map.buttons(area, everything)
frame.title(map.TITLES[layout])
if everything is None:
    blocks.empty(*map.LACKING[layout])
    st.stop()
st.text(map.MEANINGS[layout])
map.show(layout, layer, area, everything, data.model()["n_layers"])

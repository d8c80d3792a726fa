"""What the atlas says of the whole model: promotion and elimination, and the papers' figures and tables."""

import streamlit as st

from schema.errors import AtlasError
from ui import events, frame, links, papers
from ui.tray import collections, figures

PANELS = {
    "events": ("Promotion and elimination", events.page),
    "papers": ("Figures and tables of the papers", papers.page),
    "collections": ("Collections", collections.page),
    "figures": ("Figures for a paper", figures.page),
}
# `show` in the address → title, and what draws it; a string would be shown, as Streamlit does with what stands alone in a page

show = st.query_params.get("show", "events")
if show not in PANELS:
    frame.title("Evidence")
    raise AtlasError(f"no panel {show}; they are {', '.join(PANELS)}")
heading, draw = PANELS[show]
st.html(" · ".join(links.anchor(links.evidence(name), title) for name, (title, _) in PANELS.items()))
frame.title(heading)
draw()

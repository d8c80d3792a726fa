"""Components, positions and texts that the search box found, or the form of one kind of search."""

import streamlit as st

from atlas.export.visible import visible_text
from ui import data, frame, links
from ui.search import box, ways

data.model()
if typed := st.query_params.get("q", ""):
    title = f"What the atlas has of {visible_text(typed.strip(' ') or typed)}"
    frame.tab(title)
    frame.show_heading(title, 1)
    box.answer(typed)
    st.html(links.anchor(links.Link(links.SEARCH), "Other ways to search: suppressed tokens, tails, corpora, ranges of any number"))
else:
    frame.title("Find neurons")
    ways.search()

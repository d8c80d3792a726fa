"""The figures and tables of the papers, as `atlas paper` makes them for this atlas."""

import streamlit as st

from ui import papers

st.title("Figures and tables of the papers")
paper, corpus = papers.choose_paper()
items, chosen = st.columns([1, 2], gap="large")
with items:
    item = papers.choose_item(paper, corpus)
with chosen:
    papers.show(paper, item, corpus)

"""The figures and tables of the papers, as `atlas paper` makes them for this atlas."""

import streamlit as st

from ui.evidence import papers

st.title("Figures and tables of the papers")
papers.room()

"""Find neurons: by a token, by words in the texts that trigger them, by their numbers."""

import streamlit as st

from ui import data, search

st.title("Find neurons")
data.model()
search.search()

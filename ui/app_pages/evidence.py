"""What the atlas says of the whole model: a topic at a time, at the left those that there are."""

import streamlit as st

from ui.evidence import papers, room

st.title("Evidence")
topics, chosen = st.columns([1, 4], gap="medium")
with topics:
    topic = room.choose_topic()
with chosen:
    if topic is None:
        papers.room()
    else:
        room.show(topic)

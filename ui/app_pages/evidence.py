"""What the atlas says of the whole model, one topic at a time; the topics are listed at the left."""

import streamlit as st

from ui import frame
from ui.evidence import papers, room
from ui.evidence.topics import TOPICS
from ui.tray import collections, figures

OWN = {"papers": papers.room, "collections": collections.page, "figures": figures.page}

name = room.read_topic()
topics, chosen = st.columns([1, 5], gap="medium")
with topics:
    room.list_topics(name)
with chosen:
    frame.title(room.HEADINGS[name])
    if name in TOPICS:
        room.show(TOPICS[name])
    else:
        OWN[name]()

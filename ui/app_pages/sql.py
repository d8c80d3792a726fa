"""Any SELECT over the atlas, with the questions and the data dictionary beside it."""

import streamlit as st

from ui import frame, query, running

frame.title("Ask in SQL")
editor, beside = st.columns([3, 2])
with editor:
    sql = query.editor()
with beside:
    questions, dictionary, history = st.tabs(["Questions", "Tables", "History"])
    with questions:
        query.question_form()
    with dictionary:
        query.dictionary()
query.show(sql)
with history:
    query.recall()
running.prepare()

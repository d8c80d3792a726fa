"""The pages and what stands on each of them: which atlas, how old, and whether there is a newer snapshot."""

from datetime import UTC, datetime
from pathlib import Path

import streamlit as st

from schema.errors import AtlasError
from ui import blocks, data, snapshot, tokens

st.set_page_config(page_title="Activation atlas", page_icon="🗺️", layout="wide")

page = st.navigation(
    [
        st.Page("app_pages/overview.py", title="Overview", icon=":material/home:", default=True),
        st.Page("app_pages/neuron.py", title="Neuron", icon=":material/key:"),
        st.Page("app_pages/search.py", title="Search", icon=":material/search:"),
        st.Page("app_pages/prediction.py", title="Prediction", icon=":material/stacks:"),
        st.Page("app_pages/evidence.py", title="Evidence", icon=":material/fact_check:"),
        st.Page("app_pages/events.py", title="Promotion and elimination", icon=":material/swap_vert:"),
        st.Page("app_pages/map.py", title="Map", icon=":material/map:"),
        st.Page("app_pages/papers.py", title="Papers", icon=":material/menu_book:"),
        st.Page("app_pages/sql.py", title="SQL", icon=":material/code:"),
    ],
    position="top",
)


@st.fragment(run_every=20)
def state_of_the_atlas() -> None:
    """Said anew now and then, because ingest may publish meanwhile."""
    try:
        current, later = data.shown(), data.newer()
    except AtlasError as error:
        blocks.failure(error)
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(f"{Path(current.path).name}, published {snapshot.age(current.published, datetime.now(UTC))} ago")
        if later is not None and st.button(f"Show the snapshot published {snapshot.age(later.published, datetime.now(UTC))} ago"):
            data.show(later)
            st.rerun()


try:
    st.html(tokens.CSS)
    data.atlas()
    state_of_the_atlas()
    page.run()
except AtlasError as error:
    blocks.failure(error)

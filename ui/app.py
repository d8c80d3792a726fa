"""The pages and their common frame: which atlas is shown, how old it is, whether there is a newer snapshot, and whether the address belongs to this model."""

from datetime import UTC, datetime

import streamlit as st

from schema.errors import AtlasError
from ui import beside, blocks, data, frame, links, listing, previews, snapshot, tokens

st.set_page_config(page_title="Activation atlas", page_icon="🗺️", layout="wide")

page = st.navigation(
    [
        st.Page("app_pages/overview.py", title="Overview", default=True),
        *(st.Page(f"app_pages/{room}.py", title=title) for room, title in links.ROOMS.items()),
        st.Page("app_pages/sql.py", title="SQL"),
    ],
    position="hidden",
)


@st.fragment(run_every=20)
def newer_snapshot() -> None:
    """Offer a newer snapshot if an ingest has published one meanwhile."""
    try:
        later = data.newer()
    except AtlasError as error:
        blocks.failure(error)
        return
    if later is not None and st.button(f"Show the snapshot published {snapshot.age(later.published_at, datetime.now(UTC))} ago"):
        data.show_snapshot(later)
        st.rerun()


with blocks.show_errors():
    st.html(tokens.CSS + frame.CSS + listing.CSS + previews.CSS)
    frame.follow_softly()
    frame.bar(page.url_path, snapshot.age(data.current_snapshot().published_at, datetime.now(UTC)))
    newer_snapshot()
    frame.check_model()
    if beside.VS in st.query_params:
        beside.page(page.url_path)
    else:
        page.run()

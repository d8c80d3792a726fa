"""The Prediction room: what an address asks for, put together of panels that are the same for a corpus and for a live prompt."""

import streamlit as st

from ui import frame
from ui.prediction import address, lens, listing, live, panels, traces
from ui.prediction.address import View
from ui.prediction.source import of_corpus

OF_VIEW = ("position", "prompt", "index", "off", "for", "against", "open", "head", "parts")


def show() -> None:
    st.html(lens.CSS)
    view = address.read_view(st.query_params.to_dict())
    ask_for_another(view)
    if view.prompt is not None:
        live.show(view)
    elif view.position is None:
        frame.title("Traced predictions")
        listing.show()
    else:
        frame.title(f"Prediction at position {view.position}")
        panels.show([of_corpus(view, view.position)], lambda _: "")


def ask_for_another(view: View) -> None:
    """Show fields for a position and for a prompt; what is sent from them becomes the address."""
    with st.form("another", border=False):
        left, right, sent = st.columns([1, 4, 1], vertical_alignment="bottom")
        position = left.text_input("Position", "" if view.position is None else str(view.position), placeholder="position_id", max_chars=15)
        # an area, because a field of one line drops line breaks as soon as it is edited
        prompt = right.text_area("or a prompt of your own", view.prompt or "", "content", address.MOST_PROMPT, placeholder="The city council met on Monday to")
        if sent.form_submit_button("Show"):
            asked = {"prompt": prompt} if prompt.strip() and prompt != view.prompt else {"position": position} if position.strip() else {"prompt": prompt}
            if asked.get("prompt"):
                traces.allow(asked["prompt"])
            go_to_view({name: value for name, value in asked.items() if value.strip()})


def go_to_view(parameters: dict[str, str]) -> None:
    """Go to another view of this room; what else the address says, such as the atlas it is of, stays."""
    kept = {name: value for name, value in st.query_params.to_dict().items() if name not in OF_VIEW}
    st.query_params.from_dict(kept | parameters)
    st.rerun()

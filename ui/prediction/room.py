"""The Prediction page: the prediction that an address asks for, in panels that are the same for a corpus and for a live prompt.

If the address asks for no prediction, the page lists the traced positions to choose from.
"""

import streamlit as st

from ui import blocks, data, frame
from ui.prediction import address, hrefs, lens, live, panels, traces
from ui.prediction.address import View
from ui.prediction.source import of_corpus

N_LISTED = 500
"""Maximum number of traced positions in the list."""

HEADS = ["Text", "Predicts", "Probability", "Goes on with", "Rank", "Document"]

NO_TRACE = "No position of this atlas has been traced yet."

OF_VIEW = ("position", "prompt", "index", "off", "for", "against", "open", "head", "parts")


def show() -> None:
    st.html(lens.CSS)
    view = address.read_view(st.query_params.to_dict())
    ask_for_another(view)
    if view.prompt is not None:
        live.show(view)
    elif view.position is None:
        frame.title("Traced predictions")
        list_positions()
    else:
        frame.title(f"Prediction at position {view.position}")
        panels.show([of_corpus(view, view.position)], lambda _: "")


def ask_for_another(view: View) -> None:
    """Show fields for a position and for a prompt; the field that is sent becomes the address."""
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
    """Go to another view of this page. Other parameters of the address, such as the atlas, stay."""
    kept = {name: value for name, value in st.query_params.to_dict().items() if name not in OF_VIEW}
    st.query_params.from_dict(kept | parameters)
    st.rerun()


def list_positions() -> None:
    if not data.status().corpora["n_traced"].sum():
        blocks.explain_empty(NO_TRACE, "atlas ingest NAME.duckdb --model … --corpus … --trace 300")
        return
    words = st.text_input("Text contains", key="words", bind="query-params", placeholder="any text").strip(" ")
    found = data.ask("traced_positions", words=words or None, n=N_LISTED)
    if found.frame.is_empty():
        blocks.explain_empty("No traced position has this in the text before it.")
        return
    rows, right = found.frame, found.frame["is_right"].drop_nulls()
    first = f"The first {N_LISTED:,} of them" if rows.height == N_LISTED else f"{rows.height:,} positions"
    st.text(f"{first}; the prediction is right at {right.sum():,} of {len(right):,}.")
    with st.container(height=600, border=False):
        st.html(lens.table(HEADS, map(line, rows.iter_rows(named=True))))
    blocks.take_away(found, "traced_positions")


def line(row: dict[str, object]) -> list[str]:
    """Build the cells of a position, whose text is the link."""
    tokens, kinds = [str(row["text_before"])[-60:], str(row["token"])], ["", "asked"]
    text = lens.write_running_text(tokens, [lens.piece(token, kind, None) for token, kind in zip(tokens, kinds, strict=True)], kinds)
    follows = row["next_token"] is not None
    return [
        lens.link_html(text, hrefs.of_position(int(str(row["position_id"])))),
        lens.token(str(row["final_token"])),
        f"{row['final_prob']:.3f}",
        lens.token(str(row["next_token"])) if follows else "",
        f"{row['next_token_rank']:,}" if follows else "",
        lens.piece(str(row["document"]), "", None),
    ]

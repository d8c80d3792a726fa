"""The traced positions, to choose one from."""

import streamlit as st

from ui import blocks, data
from ui.prediction import hrefs, lens

N_LISTED = 500
"""Traced positions in the list."""

HEADS = ["Text", "Predicts", "Probability", "Goes on with", "Rank", "Document"]

NO_TRACE = "No position of this atlas has been traced yet."


def show() -> None:
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
    st.text(f"{first}; the prediction is the token that follows at {right.sum():,} of {len(right):,}.")
    with st.container(height=600, border=False):
        st.html(lens.table(HEADS, map(line, rows.iter_rows(named=True))))
    blocks.take_away(found, "traced_positions")


def line(row: dict[str, object]) -> list[str]:
    """Build the cells of a position, its text the link."""
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

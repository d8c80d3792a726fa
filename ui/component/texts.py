"""The triggers of a key as coloured text."""

from collections.abc import Container, Mapping
from functools import partial
from typing import Any

import streamlit as st

from atlas.address import Neuron
from atlas.ranges import traced_of
from schema.terms import PRECEDING, PRECEDING_RANKS
from ui import blocks, data, links, tokens
from ui.prediction.address import MOST_PROMPT
from ui.tray import drawn

WIDTHS = {"narrow": 5, "snippet": 16, "wide": 64}
"""Name → tokens shown before the trigger."""

TAILS = {"max": "Largest coefficients", "min": "Smallest coefficients"}

N_TEXTS = 20

LEGEND = (
    f"The framed token is the trigger, its coefficient on the left. Tokens are shaded by this neuron's coefficient at each: at up to {PRECEDING} before the "
    f"first {PRECEDING_RANKS} triggers, at other triggers, and at traced positions."
)


def triggers(where: Neuron, width: int, per_sequence: int | None) -> None:
    """Both tails as coloured text, on one scale. per_sequence: texts of one sequence at most, None for all."""
    st.text(LEGEND)
    shown = {"n": N_TEXTS, "width": width, "per_sequence": per_sequence}
    answers = {tail: data.ask("trigger_contexts", **where._asdict(), tail=tail, **shown) for tail in TAILS}
    largest = max((abs(c) for answer in answers.values() for c in answer.frame["coefficient"]), default=0.0)
    traced = traced_of(data.atlas().con, [i for answer in answers.values() for i in answer.frame["position_id"]])
    for column, (tail, answer) in zip(st.columns(2), answers.items(), strict=True):
        with column:
            st.subheader(TAILS[tail])
            if answer.frame.is_empty():
                blocks.empty("No triggers: this corpus has not been swept.", "atlas ingest NAME.duckdb --model … --corpus …")
                continue
            st.html("".join(tokens.trigger(row, largest, prediction(row, traced)) for row in answer.frame.iter_rows(named=True)))
            blocks.take_away(answer, f"triggers-{tail}", drawn=partial(drawn.triggers, answer.frame, largest))


def prediction(row: Mapping[str, Any], traced: Container[int]) -> str:
    """A link to what the model predicts at a trigger; where that is not traced, to the text up to it as a prompt, which waits for Run."""
    if row["position_id"] in traced:
        return links.anchor(links.prediction(row["position_id"]), "its prediction")
    read = "".join(row["tokens"][: row["peak"] + 1])[-MOST_PROMPT:]
    return links.anchor(links.live(read), "as a prompt") if read.strip() else ""

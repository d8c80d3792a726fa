"""The triggers of a key as coloured text."""

import streamlit as st

from atlas.address import Neuron
from schema.terms import PRECEDING, PRECEDING_RANKS
from ui import blocks, data, tokens

WIDTHS = {"narrow": 5, "snippet": 16, "wide": 64}
"""Name → tokens shown before the trigger."""

TAILS = {"max": "Largest coefficients", "min": "Smallest coefficients"}

N_TEXTS = 20

LEGEND = (
    f"The framed token is the trigger, its coefficient on the left. Tokens are shaded by this neuron's coefficient at each: at up to {PRECEDING} before the "
    f"first {PRECEDING_RANKS} triggers, at other triggers, and at traced positions."
)


def triggers(where: Neuron, width: int) -> None:
    """Both tails as coloured text, on one scale."""
    st.text(LEGEND)
    answers = {tail: data.ask("trigger_contexts", layer=where.layer, neuron=where.neuron, tail=tail, n=N_TEXTS, width=width) for tail in TAILS}
    largest = max((abs(c) for answer in answers.values() for c in answer.frame["coefficient"]), default=0.0)
    for column, (tail, answer) in zip(st.columns(2), answers.items(), strict=True):
        with column:
            st.subheader(TAILS[tail])
            if answer.frame.is_empty():
                blocks.empty("No triggers: this corpus has not been swept.", "atlas ingest NAME.duckdb --model … --corpus …")
                continue
            st.html("".join(tokens.trigger(row, largest) for row in answer.frame.iter_rows(named=True)))
            blocks.take_away(answer, f"triggers-{tail}")

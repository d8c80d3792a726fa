"""Parts of the view of a neuron: which neuron, and its triggers as coloured text."""

import random
from functools import partial

import polars as pl
import streamlit as st

from atlas.address import Neuron, parse_neuron
from atlas.export.strips import strips_latex, strips_svg, texts_of
from atlas.ranges import check_below
from schema.terms import PRECEDING, PRECEDING_RANKS
from ui import blocks, data, links, tokens

WIDTHS = {"narrow": 5, "snippet": 16, "wide": 64}
"""Name → tokens shown before the trigger."""

TAILS = {"max": "Largest coefficients", "min": "Smallest coefficients"}

N_TEXTS = 20

LEGEND = (
    f"The framed token is the trigger, its coefficient on the left. Tokens are shaded by this neuron's coefficient at each: at up to {PRECEDING} before the "
    f"first {PRECEDING_RANKS} triggers, at other triggers, and at traced positions."
)


def choose(n_layers: int, d_ffn: int) -> Neuron | None:
    """The neuron that the address asks for, with links to others; None if it asks for none. Raises AtlasError for one that this model does not have."""
    asked_for = st.query_params.get("at", "")
    where = parse_neuron(asked_for) if asked_for else None
    if where:
        check_below(where.layer, "layer", n_layers)
        check_below(where.neuron, "neuron", d_ffn)
    st.html(steps(where, n_layers, d_ffn))
    return where


def steps(where: Neuron | None, n_layers: int, d_ffn: int) -> str:
    """Links to the neuron before, the one after and any other."""
    last = n_layers * d_ffn - 1
    places = {"Random": random.randint(0, last)}
    if where:
        here = where.layer * d_ffn + where.neuron
        places = {"Previous": here - 1, "Next": here + 1} | places
    return " · ".join(links.anchor(links.neuron(*divmod(place, d_ffn)), name) for name, place in places.items() if 0 <= place <= last)


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
            blocks.take_away(answer, f"triggers-{tail}", drawn=partial(drawn, answer.frame, largest))


def drawn(triggers: pl.DataFrame, largest: float) -> tuple[str, str]:
    """Rows of trigger_contexts for the figure tray, on the page's scale."""
    texts = texts_of(triggers)
    return strips_svg(texts, largest=largest), strips_latex(texts, largest=largest)

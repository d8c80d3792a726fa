"""The neuron page's parts: which neuron, and its triggers as coloured text."""

import random

import streamlit as st

from atlas.address import Neuron, parse_neuron
from atlas.ranges import check_below
from schema.errors import AtlasError
from schema.terms import PRECEDING, PRECEDING_RANKS
from ui import asked, blocks, data, tokens

WIDTHS = {"narrow": 5, "snippet": 16, "wide": 64}
"""Name → tokens shown before the trigger."""

TAILS = {"max": "Largest coefficients", "min": "Smallest coefficients"}

N_TEXTS = 20

LEGEND = (
    f"The framed token is the trigger, its coefficient on the left. Tokens are shaded by this neuron's coefficient at each: at up to {PRECEDING} before the "
    f"first {PRECEDING_RANKS} triggers, at other triggers, and at traced positions."
)


def choose(n_layers: int, d_ffn: int) -> Neuron:
    """Widgets for layer and neuron, kept in the address; an address that this model does not have is said, never another shown in its place."""
    fault = asked.beyond("layer", "layer", n_layers) or asked.beyond("neuron", "neuron", d_ffn)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        layer = st.number_input("Layer", 0, n_layers - 1, 0, key="layer", bind="query-params", width=120)
        neuron = st.number_input("Neuron", 0, d_ffn - 1, 0, key="neuron", bind="query-params", width=140)
        last = n_layers * d_ffn - 1
        here = layer * d_ffn + neuron
        st.button("Previous", on_click=go, args=(here - 1, d_ffn), disabled=here == 0)
        st.button("Next", on_click=go, args=(here + 1, d_ffn), disabled=here == last)
        st.button("Random", on_click=lambda: go(random.randint(0, last), d_ffn))
        st.text_input("Go to", placeholder="L3N17", key="jump", on_change=jump, args=(n_layers, d_ffn), width=140)
    fault = st.session_state.pop("jump_fault", None) or fault
    if fault:
        st.title("No such neuron")
        blocks.failure(AtlasError(fault))
        st.stop()
    return Neuron(layer, neuron)


def go(place: int, d_ffn: int) -> None:
    """To a neuron by its number in the whole model."""
    st.session_state["layer"], st.session_state["neuron"] = divmod(place, d_ffn)


def jump(n_layers: int, d_ffn: int) -> None:
    """To the address that was typed."""
    typed = st.session_state["jump"]
    try:
        layer, neuron = parse_neuron(typed)
        check_below(layer, "layer", n_layers)
        check_below(neuron, "neuron", d_ffn)
    except AtlasError as error:
        st.session_state["jump_fault"] = str(error)
        return
    st.session_state["layer"], st.session_state["neuron"], st.session_state["jump"] = layer, neuron, ""


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

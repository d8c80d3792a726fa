"""View of a neuron: a summary of what it does, its triggers as coloured text, and tabs with the rest, whose questions are asked when a tab is opened."""

from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Any

import streamlit as st

from atlas.address import Neuron
from atlas.ranges import select_traced
from schema.terms import PRECEDING, PRECEDING_RANKS
from ui import address_widgets, blocks, charts, data, links, tokens
from ui.component import annotating, choosing, front, panels
from ui.prediction.address import MOST_PROMPT
from ui.tray import drawings

WIDTHS = {"narrow": 5, "snippet": 16, "wide": 64}
"""Name → tokens shown before the trigger."""

TAILS = {"max": "Largest coefficients", "min": "Smallest coefficients"}

N_TEXTS = 20

LEGEND = (
    f"The framed token is the trigger, its coefficient on the left. Tokens are shaded by this neuron's coefficient, where it is stored: at up to {PRECEDING} "
    f"tokens before the first {PRECEDING_RANKS} triggers, at other triggers, and at traced positions."
)


def triggers(where: Neuron, width: int, per_sequence: int | None) -> None:
    """Show both tails as coloured text, on one scale. per_sequence: most texts of one sequence, None for all."""
    st.text(LEGEND)
    shown = {"n": N_TEXTS, "width": width, "per_sequence": per_sequence}
    answers = {tail: data.ask("trigger_contexts", **where._asdict(), tail=tail, **shown) for tail in TAILS}
    largest = max((abs(c) for answer in answers.values() for c in answer.frame["coefficient"]), default=0.0)
    traced = select_traced(data.atlas().con, [i for answer in answers.values() for i in answer.frame["position_id"]])
    for column, (tail, answer) in zip(st.columns(2), answers.items(), strict=True):
        with column:
            st.subheader(TAILS[tail])
            if answer.frame.is_empty():
                blocks.explain_empty("No triggers: this corpus has not been swept.", "atlas ingest NAME.duckdb --model … --corpus …")
                continue
            st.html("".join(tokens.trigger(row, largest, prediction(row, traced)) for row in answer.frame.iter_rows(named=True)))
            blocks.take_away(answer, f"triggers-{tail}", drawn=partial(drawings.triggers, answer.frame, largest))


def prediction(row: Mapping[str, Any], traced: Container[int]) -> str:
    """Link to the model's prediction at a trigger; if the trigger is not traced, to the text up to it as a live prompt, which waits for Run."""
    if row["position_id"] in traced:
        return links.anchor(links.prediction(row["position_id"]), "its prediction")
    read = "".join(row["tokens"][: row["peak"] + 1])[-MOST_PROMPT:]
    return links.anchor(links.live(read), "as a prompt") if read.strip() else ""


FIRST, NARROW = 3, 5
"""Texts of each tail in the summary, and tokens shown before their triggers."""

TABS = {
    "texts": "All texts", "tokens": "Value tokens", "neighbours": "Nearest values", "circuits": "Reads from, writes to",
    "positions": "Where it mattered", "samples": "Samples", "numbers": "Norms and cosines", "notes": "Annotations",
}  # fmt: skip
"""`tab` in the address → label of the tab."""

CIRCUIT = ["side", "layer", "neuron", "weight", "cosine", "share", "promotes"]
SAMPLED = "No coefficient of this neuron is stored for a traced position: it is never among the largest of its layer there."
UNMOVED = "At no traced position is this neuron among those that move the prediction's logit most."


def show(where: Neuron) -> None:
    """Show all of a neuron: its summary, and the tab that the address names."""
    glance(where)
    OPENED[choosing.tab(where, TABS)](where)


def glance(where: Neuron) -> None:
    """Show the summary: what triggers the neuron, what it writes, how large its coefficient is."""
    here = where._asdict()
    card = data.ask("neuron_card", **here).frame.row(0, named=True)
    shown = {"n": FIRST, "width": NARROW, "per_sequence": 1}
    tails = {heading: data.ask("trigger_contexts", **here, tail=tail, **shown).frame.to_dicts() for tail, heading in TAILS.items()}
    notes = data.ask("annotated_patterns", layer=where.layer, item=where.neuron).frame.drop_nulls("description")
    # an item may also be the number of a random vector
    said = [front.format_annotation(row) for row in notes.filter(notes["subject"].is_in(list(annotating.OFFERED))).iter_rows(named=True)]
    fires = data.ask("neurons_by_density", **here, corpus=card["corpus_id"]).frame
    summary = front.neuron_note(card, None if fires.is_empty() else fires.row(0, named=True), tails[TAILS["max"]])
    st.html(front.neuron(summary, said, card, data.ask("coefficient_histogram", **here).frame.to_dicts(), tails, data.of_this_atlas(front.SWEEP)))


def all_texts(where: Neuron) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        width = address_widgets.ask_word("Tokens before the trigger", "context", list(WIDTHS), default="snippet")
        is_every = address_widgets.ask_toggle("Every text of a sequence", "every", False)
    triggers(where, WIDTHS[width], None if is_every else 1)


def value_tokens(where: Neuron) -> None:
    columns = ["direction", "rank", "token", "score", "prob"]
    blocks.table(data.ask("value_tokens", **where._asdict()), "value_tokens", columns=columns, height=460)


def circuits(where: Neuron) -> None:
    """Show virtual weights: the neurons of earlier layers that this neuron reads, and those of later layers that read it."""
    for column, heading, name in zip(st.columns(2), ("Reads from", "Writes to"), ("neuron_writers", "neuron_readers"), strict=True):
        with column:
            st.header(heading, anchor=False)
            panels.rows(name, "No neuron of another layer.", CIRCUIT, **where._asdict())


def numbers(where: Neuron) -> None:
    """Show the histogram with its scale, and every number about the neuron."""
    histogram = data.ask("coefficient_histogram", **where._asdict())
    blocks.figure(charts.histogram(histogram.frame), histogram, "histogram")
    panels.card("neuron_card", **where._asdict())


OPENED: dict[str, Callable[[Neuron], None]] = {
    "texts": all_texts,
    "tokens": value_tokens,
    "neighbours": lambda where: panels.rows("nearest_values", blocks.NOTHING, **where._asdict()),
    "circuits": circuits,
    "positions": lambda where: panels.rows("neuron_positions", UNMOVED, **where._asdict()),
    "samples": lambda where: panels.rows("coefficient_samples", SAMPLED, **where._asdict()),
    "numbers": numbers,
    "notes": annotating.annotations,
}
"""Tab → function that draws it."""

"""Detail of a layer: what its heads, its FFN and its biases add, and what its sub-updates do."""

from collections.abc import Iterable
from typing import Any

import polars as pl
import streamlit as st

from atlas.address import Head, Neuron
from schema.errors import AtlasError
from ui.prediction import charts, hrefs, lens, waterfall
from ui.prediction.address import View
from ui.prediction.contributors import ALL_PARTS, Switches, answer_of_layer
from ui.prediction.source import Source

ALL_NEURONS = 50
"""Number of neurons to ask for: as many as an atlas stores."""

SCORED = ["Neuron", "Candidate", "Final", "Next", "Coefficient", "Share", "Promotes"]


def panel(source: Source, layer: int, trace: pl.DataFrame, switches: Switches) -> None:
    here = trace.filter(pl.col("layer") == layer)
    if here.is_empty():
        raise AtlasError(f"no layer {layer}: this model has layers 0 to {max(trace['layer'])}")
    parts(source, layer, switches)
    sub_updates(source, layer, here.row(by_predicate=pl.col("site") == "resid_mid", named=True), switches)


def neighbour_links(view: View, n_layers: int) -> str:
    """Build links that close the layer, and that open the layers before and after it."""
    beside = [i for i in (view.layer - 1, view.layer + 1) if 0 <= i < n_layers] if view.layer is not None else []
    said = [
        lens.link_html("Close it", hrefs.of_view(view.with_changes(layer=None))),
        *(lens.link_html(f"L{i}", hrefs.of_view(view.with_changes(layer=i))) for i in beside),
    ]
    return f'<div class="lens"><span class="go">{" · ".join(said)}</span></div>'


def parts(source: Source, layer: int, switches: Switches) -> None:
    """Show a layer's heads, FFN and biases, and its neurons that move the prediction most; nothing if the parts are not stored."""
    found = answer_of_layer(source.ask_at_position("prediction_parts", n=ALL_PARTS), layer)
    if found.frame.is_empty():
        return
    rows = list(found.frame.iter_rows(named=True))
    st.text(f"Its {len(rows)} parts add {waterfall.format_signed(sum(row['centred_logit'] for row in rows))} to the prediction, above the mean logit.")
    cells = [
        [
            name_part(source, row, switches),
            waterfall.format_signed(row["centred_logit"]),
            waterfall.number(row["norm"]),
            f"{row['erased']:.1%}".replace("-", "−"),
        ]
        for row in rows
    ]
    source.show_html(lens.table(["Part", "Adds", "Length", "Erases of the stream"], cells), found, f"parts-{layer}")
    neurons = answer_of_layer(source.ask_at_position("prediction_neurons", n=ALL_NEURONS), layer)
    if neurons.frame.is_empty():
        st.text(f"None of its neurons is among the {ALL_NEURONS} that move this prediction most.")
        return
    st.text(f"Its neurons among the {ALL_NEURONS} that move this prediction most:")
    source.show_html(
        lens.table(["Neuron", "Adds", "Rank of all", "Its value's top token"], neuron_rows(neurons.frame.iter_rows(named=True), switches)),
        neurons,
        f"neurons-{layer}",
    )


def name_part(source: Source, row: dict[str, Any], switches: Switches) -> str:
    """Name a part; the name of a head is a link to its row of attention."""
    if row["kind"] != "head":
        return waterfall.name_of(row)
    where = Head(row["layer"], row["head"])
    return lens.link_html(str(where), hrefs.of_view(source.view.with_changes(head=where))) + switches(where)


def neuron_rows(rows: Iterable[dict[str, Any]], switches: Switches) -> Iterable[list[str]]:
    for row in rows:
        where, token = Neuron(row["layer"], row["neuron"]), row["value_top_token"]
        name = lens.link_html(str(where), hrefs.of_component(where)) + switches(where)
        yield [name, waterfall.format_signed(row["final_logit"]), str(row["rank"]), lens.token(token, hrefs.of_token(token))]


def sub_updates(source: Source, layer: int, mid: dict[str, Any], switches: Switches) -> None:
    """Show what the dominant sub-updates do to three tokens, as a chart and as rows."""
    updates = source.ask_at_position("dominant_sub_updates", layer=layer)
    if updates.frame.is_empty():
        return
    kind = charts.score_of(updates.frame)
    st.subheader("Its dominant sub-updates")
    st.html(lens.list_scored_tokens(mid))
    st.text(score_note(kind))
    rows = updates.frame.sort(f"candidate_{kind}", descending=True)
    cells = (sub_update_cells(row, kind, switches) for row in rows.iter_rows(named=True))
    source.show_html(lens.table(SCORED, cells), updates, f"updates-{layer}", charts.scores(updates.frame))


def score_note(kind: str) -> str:
    """Explain the scores: raw, or what is added to a logit; in the latter case also their order."""
    if kind == "score":
        return "Scores are raw, m·(e·v). What sub-updates add to a logit (frozen norm) is not in this older trace. A trace of more positions has it."
    return "A score is what the sub-update adds to the token's logit, the final norm's scale held. The sub-updates that promote the candidate most come first."


def sub_update_cells(row: dict[str, Any], kind: str, switches: Switches) -> list[str]:
    where = Neuron(row["layer"], row["neuron"])
    scores = [row[f"{token}_{kind}"] for token in charts.TOKENS]
    promoted = " · ".join(lens.token(text, hrefs.of_token(text)) for text in row["promotes"] or [])
    return [
        lens.link_html(str(where), hrefs.of_component(where)) + switches(where),
        *("" if score is None else waterfall.format_signed(score) for score in scores),
        waterfall.format_signed(row["coefficient"]),
        f"{row['share']:.1%}",
        promoted,
    ]

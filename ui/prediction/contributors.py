"""Contributors to a token: one ranking over all layers that sums to its logit; if that is not stored, the scores of dominant sub-updates."""

from collections.abc import Callable
from typing import Any

import polars as pl
import streamlit as st

from atlas.address import Head, Neuron
from atlas.export.visible import visible_text
from schema.errors import AtlasError
from ui import data
from ui.prediction import charts, hrefs, lens, waterfall
from ui.prediction.source import Source, lacks
from ui.prediction.waterfall import Step

N_PARTS, ALL_PARTS = 20, 100_000
"""Number of parts shown by themselves at first, and a number above that of any model's parts."""

Switches = Callable[[Neuron | Head], str]
"""A neuron or head → links that switch it; '' if nothing can be switched."""

NOT_TAKEN_APART = (
    "This prediction has not been taken apart. Below, the largest sub-updates of all layers are ranked by what they add to its logit; they are a small part, "
    "and do not sum to the logit. An atlas with attribution has the whole sum, with embeddings, heads and FFNs:"
)
NOT_LIVE = "This prompt has not been taken apart. Below, the largest sub-updates of all layers are ranked by what they add to the logit; they do not sum to it."


def panel(source: Source, switches: Switches) -> None:
    """Show the waterfall of the token that the address names, over its rival if the address names one; without stored logits, the ranking of sub-updates."""
    logits = source.ask_at_position("prediction_logits")
    if logits.frame.is_empty():
        ranking(source, switches)
        return
    rows = {row["target"]: row for row in logits.frame.iter_rows(named=True)}
    target, rival = choose_targets(rows, source.view.token, source.view.rival)
    st.html(choices(source, rows, target, rival))
    own, n = rows[target], ALL_PARTS if source.view.is_whole else N_PARTS
    if rival is None:
        parts = source.ask_at_position("prediction_parts", target=target, n=n)
        steps, what, stored = waterfall.of_parts(parts.frame.iter_rows(named=True), own["mean_logit"]), f"logit of {visible_text(own['token'])}", own["logit"]
    else:
        parts = source.ask_at_position("prediction_difference", target=target, n=n)
        steps, stored = waterfall.of_difference(parts.frame.iter_rows(named=True)), own["logit"] - rows[rival]["logit"]
        what = f"logit of {visible_text(own['token'])} less that of {visible_text(rows[rival]['token'])}"
    st.text(f"{waterfall.sentence(steps, f'The {what}')} {own['n_parts']:,} parts sum to it, each as the final norm scales it.")
    html = waterfall.html(steps, what, stored, lambda step: href_of(source, step), lambda step: switch_of(step, switches))
    if source.view.is_whole:
        narrower = hrefs.of_view(source.view.with_changes(is_whole=False))
        html += f'<div class="lens"><span class="go">{lens.link_html(f"The {N_PARTS} largest alone", narrower)}</span></div>'
    source.show_html(html, parts, "who", charts.waterfall(waterfall.frame(steps)))


def choose_targets(rows: dict[str, Any], token: str | None, rival: str | None) -> tuple[str, str | None]:
    """Choose the target of the token and that of its rival, None without one. Raises AtlasError for tokens whose logits are not stored at this position."""
    target = find_target(rows, token) if token is not None else "final"
    other = find_target(rows, rival) if rival is not None else None
    if other == target:
        others = [name for name in rows if name != target]
        # two targets may have one text
        if not others or rows[others[0]]["token"] != rows[target]["token"]:
            raise AtlasError("a token cannot be its own rival: give another token in against")
        other = others[0]
    return target, other


def find_target(rows: dict[str, Any], token: str) -> str:
    for text in (token, f" {token}"):
        for target, row in rows.items():
            if row["token"] == text:
                return target
    there = ", ".join(f"{visible_text(row['token'])} ({target})" for target, row in rows.items())
    raise AtlasError(f"the logit of {visible_text(token)} is not taken apart here; the tokens that are: {there}")


def choices(source: Source, rows: dict[str, Any], target: str, rival: str | None) -> str:
    """Build links to all available waterfalls: of each token, and of each token over another."""
    views: list[tuple[str, str | None]] = [(of, None) for of in rows]
    if len({row["token_id"] for row in rows.values()}) > 1:
        views += [(of, other) for of in rows for other in rows if of != other]
    said = []
    for of, against in views:
        label = lens.token(rows[of]["token"]) + (f" over {lens.token(rows[against]['token'])}" if against else f" ({of})")
        to = source.view.with_changes(token=None if of == "final" else rows[of]["token"], rival=rows[against]["token"] if against else None)
        said.append(f"<b>{label}</b>" if (of, against) == (target, rival) else lens.link_html(label, hrefs.of_view(to)))
    return f'<div class="lens said">{" · ".join(said)}</div>'


def href_of(source: Source, step: Step) -> str | None:
    """Find the address that a step leads to; None if it leads nowhere.

    A head leads to its row of attention, any other part of a layer to that layer, and the sum of the other parts to a view of each of them.
    """
    if step.kind == "rest":
        return hrefs.of_view(source.view.with_changes(is_whole=True))
    if step.layer is None:
        return None
    if step.head is not None:
        return hrefs.of_view(source.view.with_changes(head=Head(step.layer, step.head)))
    return hrefs.of_view(source.view.with_changes(layer=step.layer))


def switch_of(step: Step, switches: Switches) -> str:
    return switches(Head(step.layer, step.head)) if step.layer is not None and step.head is not None else ""


def ranking(source: Source, switches: Switches) -> None:
    """Show the dominant sub-updates of all layers, by what they add to the logit of the model's prediction."""
    if source.is_live:
        st.text(NOT_LIVE)
    else:
        lacks(NOT_TAKEN_APART, "attribution")
    found = source.ask_at_position("prediction_sub_updates", n=N_PARTS)
    frame = found.frame
    kind = "final_score" if frame["final_frozen_score"].is_null().all() else "final_frozen_score"
    st.text(ranking_sentence(frame, kind))
    heads = ["Neuron", "Adds to the prediction" if kind == "final_frozen_score" else "Raw score", "To the next token", "Coefficient", "Share", "Promotes"]
    source.show_html(lens.table(heads, (sub_update_cells(row, kind, switches) for row in frame.iter_rows(named=True))), found, "who")


def ranking_sentence(frame: pl.DataFrame, kind: str) -> str:
    if frame.is_empty():
        return "No sub-update of this position is stored."
    first = frame.row(0, named=True)
    n_up = int((frame[kind] > 0).sum())
    unit = "logits" if kind == "final_frozen_score" else "(raw score)"
    most = f"{Neuron(first['layer'], first['neuron'])} does most: {waterfall.format_signed(first[kind])} {unit}."
    return f"{most} Of the {frame.height} largest {n_up} promote the token."


def sub_update_cells(row: dict[str, Any], kind: str, switches: Switches) -> list[str]:
    """Build the cells of a sub-update."""
    where = Neuron(row["layer"], row["neuron"])
    after = row[kind.replace("final", "next")] if "next_frozen_score" in row and kind == "final_frozen_score" else None
    promoted = " · ".join(lens.token(text, hrefs.of_token(text)) for text in row["promotes"] or [])
    return [
        lens.link_html(str(where), hrefs.of_component(where)) + switches(where),
        waterfall.format_signed(row[kind]),
        "" if after is None else waterfall.format_signed(after),
        waterfall.format_signed(row["coefficient"]),
        f"{row['share']:.1%}",
        promoted,
    ]


def answer_of_layer(found: data.Answer, layer: int) -> data.Answer:
    """Select the rows of one layer from an answer; its statement still gives those of all layers."""
    return data.Answer(found.title, found.frame.filter(layer=layer), found.sql, found.columns, found.question, found.arguments)

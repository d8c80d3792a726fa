"""The text of a prediction: what the model had read, how surprising it was, and where else the model is in a similar state."""

from functools import partial
from math import exp
from typing import Any

import polars as pl
import streamlit as st

from atlas.export.visible import visible_text
from schema.errors import AtlasError
from ui import blocks
from ui.prediction import hrefs, lens, waterfall
from ui.prediction.address import MOST_PROMPT, View
from ui.prediction.source import Source, lacks
from ui.tokens import facts
from ui.tray import drawings

N_NEIGHBOURS = 10

MOST_SURPRISE = 12.0
"""Surprisal in nats that has the full shade: a probability of one in 160,000."""


def context(source: Source, last: dict[str, Any]) -> None:
    """Show the text around the position, with links at traced positions, and the outcome at this one. `last`: the last row of its trace."""
    around = source.ask("position_tokens", at_position=source.position)
    place = source.ask("token_context", position_ids=[source.position]).frame.row(0, named=True)
    st.html(lens.passage(around.frame.iter_rows(named=True), lambda row: to_position(source, row)))
    where = [place["document"], *facts(place["metadata"]), f"place {place['index']} in its sequence"]
    st.html(lens.outcome(last, where))
    st.html(
        f'<div class="lens"><span class="go">{lens.link_html("Read this far as a live prompt", hrefs.of_view(View(prompt=prompt_of(around.frame))))}'
        "</span></div>"
    )


def prompt_of(around: pl.DataFrame) -> str:
    """Join the text up to the position, as far as it is shown, into a prompt of at most MOST_PROMPT characters."""
    return "".join(around.filter(pl.col("position_id") <= around.filter("is_asked")["position_id"].item())["token"])[-MOST_PROMPT:]


def to_position(source: Source, row: lens.Row) -> str | None:
    return hrefs.of_position(row["position_id"]) if row["is_traced"] and not row["is_asked"] else None


def surprisal(source: Source) -> None:
    """Show how surprising each token of the passage was; for a live prompt, each of its own tokens."""
    found = source.reading()
    known = found.frame.drop_nulls("surprisal")
    if known.is_empty():
        if source.is_live:
            st.text("The prompt is a single token, which has no surprisal.")
        else:
            lacks("This atlas does not have the model's prediction at every position.", "prediction")
        return
    most = known.sort("surprisal", descending=True).row(0, named=True)
    mean = sum(known["surprisal"]) / known.height
    st.text(
        f"{mean:.2f} nats on average; {visible_text(most['token'])} surprised most, with {most['surprisal']:.1f}: it had "
        f"probability {exp(-most['surprisal']):.2g}."
    )
    st.html(lens.shade_tokens(found.frame.iter_rows(named=True), "surprisal", MOST_SURPRISE, lambda nats: f"{nats:.1f}"))
    source.take_away(found, f"{source.key}reading", drawn=partial(drawings.reading, found.frame, MOST_SURPRISE))


def show_similar_states(source: Source, layer: int, site: str = "resid_post") -> None:
    """Show traced positions whose state points the same way."""
    st.header("Where does the model stand in a similar state?")
    found = source.ask_at_position("nearest_states", layer=layer, site=site, n=N_NEIGHBOURS)
    # a prompt under an arm is no neighbour
    if found.frame.filter(pl.col("position_id") >= 0).is_empty():
        st.text("No states of other traced positions are stored.")
        return
    rows = found.frame.filter(pl.col("position_id") >= 0)
    st.text(f"By cosine of {site} in layer {layer}. {agreement(rows)}")
    cells = [
        [
            f"{row['cosine']:.3f}",
            lens.link_html(lens.piece(row["text_before"][-60:] + row["token"], "", None), hrefs.of_position(row["position_id"])),
            lens.token(row["final_token"], hrefs.of_token(row["final_token"])),
            "" if row["next_token"] is None else lens.token(row["next_token"], hrefs.of_token(row["next_token"])),
        ]
        for row in rows.iter_rows(named=True)
    ]
    source.show_html(lens.table(["Cosine", "Text", "Predicts", "Goes on with"], cells), found, "similar")


def agreement(rows: pl.DataFrame) -> str:
    """Describe how many of the nearest positions predict the token that is most common among their predictions."""
    most = rows["final_token"].value_counts(sort=True).row(0)
    return f"{most[1]} of the {rows.height} nearest predict the same token." if most[1] > 1 else f"The {rows.height} nearest each predict a different token."


def show_neighbours(source: Source) -> None:
    """Show neighbours in a datastore, if a retrieval has looked for them."""
    if source.is_live:
        return
    try:
        found = source.ask("knn_neighbours", at_position=source.position)
    except AtlasError as error:
        blocks.explain_empty(str(error))
        return
    if found.frame.is_empty():
        blocks.explain_empty("No retrieval has looked for neighbours of this position.", "atlas retrieve NAME.duckdb --store 0 --tune 1 --test 2")
        return
    st.subheader("Neighbours in the datastore")
    share = found.frame.filter("is_next")["weight"].sum()
    st.text(f"In {found.frame['is_next'].sum()} of the {found.frame.height} nearest, the next token is the same as here; they have {share:.0%} of the weight.")
    cells = [
        [
            "" if row["weight"] is None else f"{row['weight']:.3f}",
            waterfall.number(row["distance"]),
            lens.piece(row["text_before"][-60:], "", None),
            lens.token(row["next_token"], hrefs.of_token(row["next_token"])),
            lens.piece(row["document"], "", None),
        ]
        for row in found.frame.iter_rows(named=True)
    ]
    source.show_html(lens.table(["Weight", "Distance", "Text", "Goes on with", "Document"], cells), found, "retrieved")

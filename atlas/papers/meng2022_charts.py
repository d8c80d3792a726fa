"""Charts of causal tracing: rows by layer, for three sites side by side on one diverging scale."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from atlas.papers import charts
from atlas.papers.experiment_rows import SITES
from atlas.papers.labels import label
from schema.terms import TOKEN_ROLES

if TYPE_CHECKING:
    import altair as alt

DIVERGING = ["#0072B2", "#FFFFFF", "#D55E00"]
"""Colours for below 0, 0 and above 0: the darker, the further from 0."""

NAMES = {"resid_post": "state", "attn_out": "attention", "ffn_out": "FFN"}

ROW, GAP, AROUND = 11, 0.8, 88
"""Height of a row in pt; the gap between sites, in columns; the height of axis, legend and names of sites, in pt."""


def trace(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw the effects at every token of the prompt; the subject's tokens are marked with *."""
    tokens = frame.unique("index").sort("index")
    names = [label(token) + ("*" if role.startswith("subject") else "") for token, role in tokens.select("token", "role").rows()]
    rows = {index: row for row, index in enumerate(tokens["index"].to_list())}
    return heat_map(frame.with_columns(pl.col("index").replace_strict(rows).alias("row")), names, "Indirect effect")


def average(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw the average effects at every role that some prompt has, in the order of a prompt."""
    order = ("other", *(role for role in TOKEN_ROLES if role != "other"))
    roles = [role for role in order if role in set(frame["role"])]
    rows = {role: row for row, role in enumerate(roles)}
    return heat_map(frame.with_columns(pl.col("role").replace_strict(rows).alias("row")), [names_of_role(role) for role in roles], "Average indirect effect")


def names_of_role(role: str) -> str:
    return {"other": "before the subject", "last": "last token"}.get(role, role.replace("_", " "))


def heat_map(frame: pl.DataFrame, names: Sequence[str], title: str) -> "alt.LayerChart":
    """Draw a heat map of the columns row (from 0), site, layer and effect in one view.

    Each site has its own stretch of the x axis, because the width of views side by side cannot be set.
    """
    import altair as alt

    # another cell cannot be placed, or has no colour
    frame = frame.filter(pl.col("site").is_in(SITES) & pl.col("effect").is_finite())
    layers = sorted(frame["layer"].unique().to_list())
    step = len(layers) + GAP
    sites = [site for site in SITES if site in set(frame["site"])]
    start = {site: i * step for i, site in enumerate(sites)}
    shown = frame.select(
        (
            pl.col("site").replace_strict(start, default=None, return_dtype=pl.Float64)
            + pl.col("layer").replace_strict(columns_of(layers), default=None, return_dtype=pl.Int64)
        ).alias("x"),
        "row",
        "effect",
    ).with_columns((pl.col("x") + 1).alias("x2"))
    most = max(float(frame["effect"].abs().max() or 0.0), 1e-9)  # type: ignore[arg-type]
    x = alt.X("x:Q", title="Layer (from 0)", scale=alt.Scale(domain=[0, len(sites) * step - GAP], nice=False), axis=layer_ticks(layers, len(sites), step))
    y = alt.Y("row:O", title=None, sort=None, scale=alt.Scale(domain=[*range(len(names))], padding=0), axis=row_ticks(names))
    color = alt.Color(
        "effect:Q",
        scale=alt.Scale(domain=[-most, 0, most], range=DIVERGING, interpolate="rgb"),
        legend=alt.Legend(title=title, titleOrient="left", gradientLength=160, gradientThickness=8, format="~g", tickCount=3, offset=16),
    )
    cells = alt.Chart(shown).mark_rect(stroke=None).encode(x=x, x2="x2:Q", y=y, color=color)
    stretches = pl.DataFrame([{"x": at, "x2": at + len(layers)} for at in start.values()], schema={"x": pl.Float64, "x2": pl.Float64})
    heads = pl.DataFrame([{"x": at + len(layers) / 2, "site": NAMES[site]} for site, at in start.items()], schema={"x": pl.Float64, "site": pl.String})
    # with the axis of the cells: of several that are merged another's rules would hold
    border = alt.Chart(stretches).mark_rect(fill=None, stroke="#333333", strokeWidth=0.5).encode(x=x, x2="x2:Q", y=alt.value(0), y2=alt.value("height"))
    over = alt.Chart(heads).mark_text(dy=-6, fontSize=8, color="#767676").encode(x=x, y=alt.value(0), text="site:N")
    return charts.apply_print_theme(alt.layer(cells, border, over), width=charts.PAGE, height=AROUND + ROW * len(names))


def columns_of(layers: Sequence[int]) -> dict[int, int]:
    return {layer: column for column, layer in enumerate(layers)}


def layer_ticks(layers: Sequence[int], n_sites: int, step: float) -> "alt.Axis":
    """Put ticks under the middle of columns: under all of few layers, and at regular steps, at most 10 for each site, of many."""
    import altair as alt

    every = max(1, -(-len(layers) // 10))
    at = {round(site * step + column + 0.5, 3): layer for site in range(n_sites) for column, layer in enumerate(layers) if column % every == 0}
    return alt.Axis(
        values=list(at), labelExpr=f"{json.dumps({f'{x:g}': str(layer) for x, layer in at.items()})}[format(datum.value, '.4~g')]", grid=False, domain=False
    )


def row_ticks(names: Sequence[str]) -> "alt.Axis":
    import altair as alt

    return alt.Axis(labelExpr=f"{json.dumps(list(names))}[datum.value]", grid=False, ticks=False, domain=False, labelOverlap=False)

"""Charts of Geva et al. 2022, each from the rows of its question."""

from typing import TYPE_CHECKING

import polars as pl

from atlas.papers import charts
from atlas.papers.labels import labels

if TYPE_CHECKING:
    import altair as alt

SCORES = {"max_score": "largest", "mean_score": "mean", "min_score": "smallest"}
"""Score of ten sub-updates → its name in a legend."""

SCORE = "Raw score m·(e·v)"

CONCEPTS = ("semantic", "syntactic", "names", "several", "uncovered")
CONCEPT_COLORS = [*charts.VIRIDIS, "#F2F2F2"]

SUBJECTS = {"value": "values", "random_vector": "random|vectors", "ffn_update": "FFN|updates"}


def concepts(frame: pl.DataFrame) -> "alt.Chart":
    """Shares of tokens by kind of concept, for values and what they are compared with."""
    shown = frame.with_columns(pl.col("subject").replace_strict(SUBJECTS))
    return charts.stacked(shown, x="subject", parts={part: part for part in CONCEPTS[:-1]}, y_title="Tokens", is_share=True)


def fig2(frame: pl.DataFrame) -> "alt.Chart":
    """The same shares of the values of each layer."""
    return charts.stacked(frame, parts={part: part for part in CONCEPTS}, y_title="Tokens", is_share=True, colors=CONCEPT_COLORS)


def dominant_share(frame: pl.DataFrame) -> "alt.LayerChart":
    """Share of the dominant sub-updates in the summed length."""
    names = {"max_share": "largest", "mean_share": "mean", "min_share": "smallest"}
    return charts.compared(frame, names, y_title="Share of summed length", format="~%")


def fig3(frame: pl.DataFrame) -> "alt.LayerChart":
    """Scores over the layers, of dominant and random sub-updates."""
    order = [name + which for name in SCORES.values() for which in ("", ", random")]
    long = frame.rename(SCORES).unpivot(index=["layer", "selection"], on=list(SCORES.values()), variable_name="score", value_name="value")
    long = long.with_columns(series=pl.col("score") + pl.when(pl.col("selection") == "random").then(pl.lit(", random")).otherwise(pl.lit("")))
    # the random ones below the others, which they would hide
    long = long.sort(pl.col("selection") != "random", maintain_order=True)
    gray = "#9A9A9A"
    colors = [color for dominant in charts.OKABE_ITO for color in (dominant, gray)]
    markers = [marker for marker in charts.MARKERS for _ in range(2)]
    return charts.lines(long, y="value", y_title=SCORE, series="series", order=order, colors=colors, markers=markers, width=charts.PAGE)


def events(frame: pl.DataFrame) -> "alt.LayerChart":
    """Events of both kinds in each layer."""
    names = {"n_saturations": "saturations", "n_eliminations": "eliminations", "n_other_eliminations": "not of the input token"}
    return charts.compared(frame, names, y_title="Events")


def table4(frame: pl.DataFrame) -> "alt.Chart":
    """Scores by event and selection."""
    event = pl.col("event").str.replace(" of ", "|of ")
    shown = frame.select(pl.format("{}|{}", event, "selection").alias("group"), *SCORES).rename(SCORES)
    long = shown.unpivot(index="group", variable_name="of the ten", value_name="score")
    return charts.bars(long, x="group", y="score", y_title=SCORE, series="of the ten", order=list(SCORES.values()), width=charts.PAGE)


def extreme(frame: pl.DataFrame) -> "alt.Chart":
    """Extreme sub-updates in each layer, by what they do to the candidate."""
    parts = {"n_promoting": "promote the candidate", "n_demoting": "demote it"}
    return charts.stacked(frame, parts=parts, y_title="Extreme sub-updates", colors=[charts.VIRIDIS[1], charts.VIRIDIS[3]])


def extreme_clusters(frame: pl.DataFrame) -> "alt.Chart":
    """Extreme sub-updates of each cluster, named by its number and what it promotes."""
    names = [f"{cluster}: {labels(tokens)}" for cluster, tokens in frame.select("cluster", "tokens").iter_rows()]
    return charts.ranked(frame.with_columns(name=pl.Series(names)), y="name", x="n_updates", x_title="Extreme sub-updates", format="d")


def value_groups(frame: pl.DataFrame) -> "alt.Chart":
    """Share of each group in the extreme sub-updates."""
    return charts.ranked(frame, y="value_group", x="updates_share", x_title="Share of extreme sub-updates", format="~%")

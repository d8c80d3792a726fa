"""Charts of Khandelwal et al. 2020, each from the rows of its item."""

from typing import TYPE_CHECKING

import polars as pl

from atlas.papers import charts

if TYPE_CHECKING:
    import altair as alt

QUERIES = {"perplexity": "all queries", "perplexity_others": "without near-copies"}
MIXTURES = ("3-gram", "5-gram", "neighbours")


def neighbours(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw perplexity over k, which doubles from tick to tick."""
    import altair as alt

    ks = frame["k"].to_list()
    axis = alt.Axis(values=ks, format="d", grid=False)
    return draw_query_lines(frame, "k", alt.X("k:Q", title="Neighbours k", scale=alt.Scale(type="log", base=2, domain=[min(ks), max(ks)]), axis=axis))


def weights(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw perplexity over λ, leaving out any λ at which a mixture gives some token no probability."""
    return draw_query_lines(frame, "weight", weight_axis())


def draw_query_lines(frame: pl.DataFrame, over: str, x: "alt.X") -> "alt.LayerChart":
    """Draw a line for all queries, and one for those that are not near-copies."""
    long = frame.select(over, *QUERIES).rename(QUERIES).unpivot(index=over, variable_name="queries", value_name="perplexity")
    return perplexities(long, "queries", list(QUERIES.values()), x)


def ngrams(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw the perplexity of each mixture over λ."""
    return perplexities(frame.sort("weight"), "mixture", list(MIXTURES), weight_axis())


def perplexities(frame: pl.DataFrame, series: str, order: list[str], x: "alt.X") -> "alt.LayerChart":
    finite = frame.filter(pl.col("perplexity").is_finite())
    return charts.lines(finite, x=x, y="perplexity", y_title="Perplexity", series=series, order=order, is_from_zero=False)


def weight_axis() -> "alt.X":
    import altair as alt

    return alt.X("weight:Q", title="Share λ in the mixture", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5, grid=False))

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
    """Draw the shares of tokens by kind of concept, for values, random vectors and FFN updates."""
    shown = frame.with_columns(pl.col("subject").replace_strict(SUBJECTS))
    return charts.stacked_bars(shown, x="subject", parts={part: part for part in CONCEPTS[:-1]}, y_title="Tokens", is_share=True)


def fig2(frame: pl.DataFrame) -> "alt.Chart":
    """Draw the shares of tokens by kind of concept, for the values of each layer."""
    return charts.stacked_bars(frame, parts={part: part for part in CONCEPTS}, y_title="Tokens", is_share=True, colors=CONCEPT_COLORS)


def dominant_share(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw the share of the dominant sub-updates in the summed length."""
    names = {"max_share": "largest", "mean_share": "mean", "min_share": "smallest"}
    return charts.column_lines(frame, names, y_title="Share of summed length", format="~%")


def fig3(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw scores over the layers, of dominant and random sub-updates."""
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
    """Draw the events of both kinds in each layer."""
    names = {"n_saturations": "saturations", "n_eliminations": "eliminations", "n_other_eliminations": "not of the input token"}
    return charts.column_lines(frame, names, y_title="Events")


def table4(frame: pl.DataFrame) -> "alt.Chart":
    """Draw scores by event and selection."""
    event = pl.col("event").str.replace(" of ", "|of ")
    shown = frame.select(pl.format("{}|{}", event, "selection").alias("group"), *SCORES).rename(SCORES)
    long = shown.unpivot(index="group", variable_name="of the ten", value_name="score")
    return charts.bars(long, x="group", y="score", y_title=SCORE, series="of the ten", order=list(SCORES.values()), width=charts.PAGE)


def extreme(frame: pl.DataFrame) -> "alt.Chart":
    """Draw the extreme sub-updates in each layer, by what they do to the candidate."""
    parts = {"n_promoting": "promote the candidate", "n_demoting": "demote it"}
    return charts.stacked_bars(frame, parts=parts, y_title="Extreme sub-updates", colors=[charts.VIRIDIS[1], charts.VIRIDIS[3]])


def extreme_clusters(frame: pl.DataFrame) -> "alt.Chart":
    """Draw the extreme sub-updates of each cluster, named by its number and what it promotes."""
    names = [f"{cluster}: {labels(tokens)}" for cluster, tokens in frame.select("cluster", "tokens").iter_rows()]
    return charts.ranked_bars(frame.with_columns(name=pl.Series(names)), y="name", x="n_updates", x_title="Extreme sub-updates", format="d")


def value_groups(frame: pl.DataFrame) -> "alt.Chart":
    """Draw the share of each group in the extreme sub-updates."""
    return charts.ranked_bars(frame, y="value_group", x="updates_share", x_title="Share of extreme sub-updates", format="~%")


ARMS = {"base": "base", "treatment": "concept", "positive_control": "positive control", "random_control": "random values"}
"""Role of an arm → name of its series; arms of the role baseline go by their own names."""


def table5(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw the share of continuations over 0.5 against perplexity; a bar is the interval of the difference, placed around the base's share."""
    import altair as alt

    over = frame.filter(role="base")["over"]
    base = float(over[0]) if len(over) else 0.0
    shown = frame.select(
        "over",
        "perplexity",
        arm=pl.when(pl.col("role") == "baseline").then(pl.col("name")).otherwise(pl.col("role").replace(ARMS)),
        strength=pl.when(pl.col("role").is_in(["treatment", "positive_control"])).then(pl.col("name").str.extract(r"(× .*)$")).otherwise(pl.lit("")),
        low=pl.when(pl.col("role") != "random_control").then((base + pl.col("over_low")).clip(0, 1)),
        high=pl.when(pl.col("role") != "random_control").then((base + pl.col("over_high")).clip(0, 1)),
    ).drop_nulls("perplexity")
    order = [*ARMS.values(), *frame.filter(role="baseline")["name"].unique(maintain_order=True)]
    names = [name for name in order if name in set(shown["arm"])]
    places = [order.index(name) for name in names]
    colors, markers = (
        ["#000000", "#0072B2", "#D55E00", "#9A9A9A", "#009E73", "#CC79A7"],
        ["diamond", "circle", "square", "triangle-down", "triangle-up", "cross"],
    )
    legend = charts.legend(names, charts.PAGE)
    drawn = alt.Chart(shown).encode(
        x=alt.X(
            "perplexity:Q", title="Perplexity of other text (log scale)", scale=alt.Scale(type="log", nice=False, padding=20),
            axis=alt.Axis(format="~r", tickCount=6, labelOverlap=True, grid=False),
        ),
        color=alt.Color("arm:N", scale=alt.Scale(domain=names, range=[colors[i % len(colors)] for i in places]), legend=legend),
    )  # fmt: skip
    y = charts.y_axis("over", "Continuations over 0.5", "~%")
    point = drawn.mark_point(filled=True, size=40, opacity=1).encode(
        y=y, shape=alt.Shape("arm:N", scale=alt.Scale(domain=names, range=[markers[i % len(markers)] for i in places]), legend=legend)
    )
    bar = drawn.mark_rule(strokeWidth=1).encode(y=alt.Y("low:Q"), y2="high:Q")
    label = drawn.mark_text(dx=6, dy=-5, align="left", fontSize=7).encode(y=y, text="strength:N")
    return charts.apply_print_theme(alt.layer(bar, point, label), width=charts.PAGE, height=200)

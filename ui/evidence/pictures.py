"""Pictures of the panels. Pure: rows in, Altair out."""

import altair as alt
import polars as pl

from atlas import charts as stock
from atlas.address import Head
from atlas.charts import OKABE_ITO
from atlas.export.visible import visible_text
from atlas.papers.labels import label
from ui.charts import PANEL, AnyChart
from ui.evidence import intervention_sentences, sentences

MOST_BARS = 30
"""Maximum number of bars that are legible beside each other."""

MOST_EDGES = 30
"""Maximum number of edges that can be told apart in one picture; tables and files have all edges."""

DIVERGING = ["#5E3C99", "#F7F7F7", "#E66101"]
"""Colours below 0, at 0 and above 0 (ColorBrewer's PuOr)."""


def draw_heads(frame: pl.DataFrame, column: str, title: str, scale: alt.Scale) -> AnyChart:
    """Draw every head as a cell, coloured by `column`: layers from bottom to top, heads from left to right."""
    shown = frame.select("layer", "head", pl.col(column).alias("value"), name=head_addresses(frame))
    return (
        alt.Chart(shown)
        .mark_rect()
        .encode(
            x=alt.X("head:O", title="Head (from 0)", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("layer:O", title="Layer (from 0)", sort="descending", axis=alt.Axis(labelOverlap="parity")),
            color=alt.Color("value:Q", title=title, scale=scale, legend=alt.Legend(format="~g", gradientLength=120)),
            tooltip=[alt.Tooltip("name:N", title="head"), alt.Tooltip("value:Q", title=title, format=".3f")],
        )
        .properties(height=max(PANEL, 11 * frame["layer"].n_unique()))
    )


def head_addresses(frame: pl.DataFrame, prefix: str = "") -> pl.Series:
    """Write the addresses of heads, such as 'L3H7'."""
    return pl.Series([str(Head(*place)) for place in frame.select(f"{prefix}layer", f"{prefix}head").iter_rows()], dtype=pl.String)


def draw_behaviour(frame: pl.DataFrame) -> AnyChart:
    column = "probe" if frame["probe"].null_count() < frame.height else "text"
    return draw_heads(frame, column, "Mean attention weight", alt.Scale(domain=[0, 1], scheme="viridis"))


def draw_copying(frame: pl.DataFrame) -> AnyChart:
    return draw_heads(frame, "copying_effective", "Σ Re λ / Σ |λ|", alt.Scale(domain=[-1, 0, 1], range=DIVERGING))


def draw_memory(frame: pl.DataFrame) -> AnyChart:
    column = "mean_erased" if frame["mean_erased"].null_count() < frame.height else "stream_ratio"
    most = max(float(frame[column].abs().max() or 0.0), 1e-9)  # type: ignore[arg-type]
    title = {"mean_erased": "Share of the stream deleted", "stream_ratio": "Σ Re λ / Σ |λ| of W_OV"}[column]
    return draw_heads(frame, column, title, alt.Scale(domain=[-most, 0, most], range=DIVERGING))


def draw_edges(frame: pl.DataFrame) -> AnyChart:
    """Draw the strongest pairs of heads as lines from the earlier head up to the later one, wider for scores further above chance."""
    strong = frame.head(MOST_EDGES)
    shown = strong.select("layer", "head", "from_layer", "from_head", "excess", later=head_addresses(strong), earlier=head_addresses(strong, "from_"))
    ends = pl.concat([
        shown.select("layer", "head", name="later"),
        shown.select(layer="from_layer", head="from_head", name="earlier"),
    ]).unique(maintain_order=True)  # fmt: skip
    x = alt.X("head:Q", title="Head (from 0)", axis=alt.Axis(format="d", tickMinStep=1, grid=False))
    y = alt.Y("layer:Q", title="Layer (from 0)", axis=alt.Axis(format="d", tickMinStep=1))
    width = alt.StrokeWidth("excess:Q", title="Score above chance", scale=alt.Scale(range=[0.6, 5], zero=True), legend=alt.Legend(format="~g", tickCount=3))
    line = alt.Chart(shown).mark_rule(color=OKABE_ITO[0], opacity=0.6).encode(
        x=x, y=y, x2="from_head:Q", y2="from_layer:Q", strokeWidth=width,
        tooltip=[alt.Tooltip("later:N", title="reads"), alt.Tooltip("earlier:N", title="from"), alt.Tooltip("excess:Q", format="+.3f")],
    )  # fmt: skip
    point = alt.Chart(ends).mark_circle(size=70, opacity=1, color=OKABE_ITO[1]).encode(x=x, y=y, tooltip=[alt.Tooltip("name:N", title="head")])
    text = alt.Chart(ends).mark_text(dy=-9, fontSize=10, color="#777").encode(x=x, y=y, text="name:N")
    return alt.layer(line, point, text).properties(height=PANEL * 2)


def draw_bars(frame: pl.DataFrame, x: str, y: str, title: str, format: str = "~f") -> AnyChart:
    """Draw a bar for each of the first rows, in their order."""
    shown = frame.head(MOST_BARS).select(
        pl.col(x).cast(pl.String).fill_null("all").map_elements(visible_text, return_dtype=pl.String).alias("name"), pl.col(y).alias("value")
    )
    return (
        alt.Chart(shown)
        .mark_bar(color=OKABE_ITO[0])
        .encode(
            y=alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelLimit=240, labelOverlap=False)),
            x=alt.X("value:Q", title=title, axis=alt.Axis(format=format)),
            tooltip=[alt.Tooltip("name:N", title=x.replace("_", " ")), alt.Tooltip("value:Q", title=title, format=",.4~g")],
        )
        .properties(height=alt.Step(18))
    )


def draw_side_by_side(frame: pl.DataFrame, x: str, columns: dict[str, str], title: str) -> AnyChart:
    """Draw bars of several columns for each of the first rows. columns: column → its name."""
    held = {column: name for column, name in columns.items() if frame[column].count()}
    shown = frame.head(MOST_BARS).select(pl.col(x).cast(pl.String).fill_null("all").alias("name"), *held).rename(held)
    long = shown.unpivot(index="name", variable_name="series", value_name="value").drop_nulls("value")
    return (
        alt.Chart(long)
        .mark_bar()
        .encode(
            y=alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelLimit=240, labelOverlap=False)),
            yOffset=alt.YOffset("series:N", sort=list(held.values())),
            x=alt.X("value:Q", title=title, axis=alt.Axis(format="~f")),
            color=alt.Color("series:N", scale=alt.Scale(domain=list(held.values()), range=OKABE_ITO[: len(held)]), legend=alt.Legend(title=None, orient="top")),
            tooltip=["name:N", "series:N", alt.Tooltip("value:Q", format=",.4~g")],
        )
        .properties(height=alt.Step(12))
    )


def draw_curve(frame: pl.DataFrame, x: str, y: str, titles: tuple[str, str], *, is_diagonal: bool = False) -> AnyChart:
    """Draw one share against another. is_diagonal: add the line on which both are equal."""
    base = alt.Chart(frame.drop_nulls([x, y])).encode(
        x=alt.X(f"{x}:Q", title=titles[0], axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        y=alt.Y(f"{y}:Q", title=titles[1], axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        tooltip=[alt.Tooltip(f"{x}:Q", title=titles[0], format=".1%"), alt.Tooltip(f"{y}:Q", title=titles[1], format=".1%")],
    )
    drawn = [base.mark_line(color=OKABE_ITO[0]), base.mark_point(color=OKABE_ITO[0], filled=True, size=40)]
    if is_diagonal:
        ends = pl.DataFrame({x: [0.0, 1.0], y: [0.0, 1.0]})
        drawn.insert(0, alt.Chart(ends).mark_line(color="#888", strokeDash=[4, 3]).encode(x=f"{x}:Q", y=f"{y}:Q"))
    return alt.layer(*drawn).properties(height=PANEL * 1.5)


def draw_knn_curve(frame: pl.DataFrame) -> AnyChart:
    """Draw perplexity over λ for each number of neighbours, at the chosen temperature."""
    chosen = frame.filter(pl.col("is_chosen"))
    at = frame.filter(pl.col("temperature") == chosen["temperature"][0]) if chosen.height else frame
    finite = at.filter(pl.col("perplexity").is_finite()).with_columns(pl.format("k = {}", "k").alias("series"))
    order = finite.sort("k")["series"].unique(maintain_order=True).to_list()[-len(OKABE_ITO) :]
    x = alt.X("weight:Q", title="Share λ of the neighbours", axis=alt.Axis(tickCount=5, grid=False))
    return stock.lines(
        finite.filter(pl.col("series").is_in(order)), x=x, y="perplexity", y_title="Perplexity", series="series", order=order, is_from_zero=False
    )


def draw_patching(frame: pl.DataFrame) -> AnyChart:
    """Draw a heat map with a row for each token of the prompt, labelled with the other prompt's token too if the two differ."""
    shown = intervention_sentences.select_drawn_rows(intervention_sentences.select_one_pair(frame))
    tokens = shown.unique("index").sort("index")
    pairs = tokens.select("token", "from_token").iter_rows()
    names = [label(token) if other in (token, None) else f"{label(token)} ← {label(other)}" for token, other in pairs]
    rows = {index: row for row, index in enumerate(tokens["index"].to_list())}
    return stock.heat_map(shown.with_columns(pl.col("index").replace_strict(rows).alias("row")), names, "Share of the difference")


def draw_attributions(frame: pl.DataFrame) -> AnyChart:
    """Draw a bar for each token, in the order of the text."""
    shown = intervention_sentences.select_drawn_rows(intervention_sentences.select_first_method(frame)).select("index", "token", "attribution")
    named = shown.with_columns(
        pl.Series("name", [f"{index} {intervention_sentences.shorten_token(token)}" for index, token, _ in shown.iter_rows()], dtype=pl.String)
    )
    return (
        alt.Chart(named)
        .mark_bar()
        .encode(
            y=alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelLimit=240, labelOverlap=False)),
            x=alt.X("attribution:Q", title=f"Adds to the {intervention_sentences.SCORES[sentences.first_row(frame)['score']]}"),
            color=alt.condition(alt.datum.attribution >= 0, alt.value(DIVERGING[2]), alt.value(DIVERGING[0])),
            tooltip=[alt.Tooltip("name:N", title="token"), alt.Tooltip("attribution:Q", format="+.4g")],
        )
        .properties(height=alt.Step(18))
    )

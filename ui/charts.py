"""Charts for the screen, which are also printed. Pure: frames in, Altair out."""

import altair as alt
import polars as pl

from atlas.charts import OKABE_ITO

AnyChart = alt.Chart | alt.LayerChart | alt.FacetChart | alt.ConcatChart

PANEL = 200
"""Unit of the height and width of charts, in px on screen and pt in print."""


def apply_print_style(chart: AnyChart) -> AnyChart:
    """Style a chart for print: white, in a font that the renderer has. Charts of the papers, which have a print style already, stay as they are."""
    if chart.config is not alt.Undefined:
        return chart
    return chart.configure(font="Liberation Sans, Arial, Helvetica, sans-serif", background="white").configure_axis(labelFontSize=9, titleFontSize=9)


def apply_screen_style(chart: AnyChart) -> AnyChart:
    """Style a chart for the page: a chart of the papers loses its print style, and takes the page's width, height and legend; any other stays as it is."""
    if chart.config is alt.Undefined:
        return chart
    shown = chart.copy(deep=False)
    for dress in ("config", "background", "autosize", "padding", "width"):
        shown[dress] = alt.Undefined
    # one with a row for each of many things is as high as it needs to be
    shown["height"] = max(PANEL * 1.5, chart.height) if isinstance(chart.height, int | float) else PANEL * 1.5
    return shown.configure_legend(orient="top", title=None, labelLimit=0)


GRID = """<style>.st-key-profiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:.4rem 1rem}</style>"""
"""CSS that sets panels side by side, as many as fit into the width of the page."""


def profile(layers: pl.DataFrame, column: str, title: str) -> AnyChart:
    """Draw the values of a measure in all layers."""
    base = alt.Chart(
        layers.select("layer", pl.col(column).alias("value")).drop_nulls("value"), title=alt.TitleParams(title, fontSize=12, anchor="start")
    ).encode(
        x=alt.X("layer:O", title="Layer (from 0)", axis=alt.Axis(labelAngle=0, labelOverlap="parity")),
        y=alt.Y("value:Q", title=None, axis=alt.Axis(tickCount=4)),
        tooltip=[alt.Tooltip("layer:O", title="Layer"), alt.Tooltip("value:Q", title=title, format=".4g")],
    )
    point = base.mark_point(color=OKABE_ITO[0], filled=True, size=22)
    # on a page the height is that of title and axis too
    return alt.layer(base.mark_line(color=OKABE_ITO[0]), point).properties(height=PANEL * 1.1)


def profiles(layers: pl.DataFrame, measures: dict[str, str]) -> alt.ConcatChart:
    """Draw all measures in one figure, for files. measures: column → title with unit."""
    return alt.concat(*(profile(layers, column, title).properties(width=PANEL * 0.85, height=PANEL * 0.65) for column, title in measures.items()), columns=3)


def histogram(bins: pl.DataFrame) -> alt.Chart:
    """Draw the coefficients of a neuron as a histogram. bins: columns lower_edge, upper_edge, n_positions and share."""
    shown = bins.with_columns(pl.concat_str([pl.col("lower_edge").round_sig_figs(3), pl.lit(" to "), pl.col("upper_edge").round_sig_figs(3)]).alias("range"))
    return (
        alt.Chart(shown)
        .mark_bar(color=OKABE_ITO[0])
        .encode(
            x=alt.X("lower_edge:O", title="Coefficient (lower edge of its bin)", axis=alt.Axis(labelAngle=-45, labelOverlap=True, format=".2g")),
            y=alt.Y("share:Q", title="Share of positions", scale=alt.Scale(type="sqrt"), axis=alt.Axis(format="%")),
            tooltip=[
                alt.Tooltip("range:N", title="Coefficient"),
                alt.Tooltip("n_positions:Q", title="Positions", format=","),
                alt.Tooltip("share:Q", format=".3%"),
            ],
        )
        .properties(height=PANEL * 1.3)
    )


KINDS = ["bar", "line", "point"]


def two_columns(frame: pl.DataFrame, kind: str, x: str, y: str, colour: str | None) -> alt.Chart:
    """Plot two columns against each other, as they are; a third, if any, as colour."""
    plotted = frame.select(pl.col(x).alias("across"), pl.col(y).alias("up"), *([pl.col(colour).cast(pl.String).alias("colour")] if colour else []))
    across = "across:Q" if kind == "point" and plotted.schema["across"].is_numeric() else "across:N"
    up = "up:Q" if plotted.schema["up"].is_numeric() else "up:N"
    chart = alt.Chart(plotted)
    marked = {"bar": chart.mark_bar, "line": chart.mark_line, "point": chart.mark_point}[kind]
    hue = alt.Color("colour:N", title=colour, scale=alt.Scale(range=OKABE_ITO)) if colour else alt.value(OKABE_ITO[0])
    return (
        marked()
        .encode(x=alt.X(across, title=x, sort=None, axis=alt.Axis(labelOverlap=True)), y=alt.Y(up, title=y, stack=None), color=hue)
        .properties(height=PANEL * 1.3)
    )

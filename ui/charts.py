"""Charts for the screen, which go to paper as they are. Pure: frames in, Altair out."""

import altair as alt
import polars as pl

from atlas.papers.charts import OKABE_ITO

AnyChart = alt.Chart | alt.LayerChart | alt.FacetChart

PANEL = 200
"""Height of a chart, in px on screen and pt in print; a panel of several is half as wide again."""


def printed(chart: AnyChart) -> AnyChart:
    """The chart in print dress: white, in the font that the renderer brings. Those of the papers have theirs already."""
    if chart.config is not alt.Undefined:
        return chart
    return chart.configure(font="Liberation Sans, Arial, Helvetica, sans-serif", background="white").configure_axis(labelFontSize=9, titleFontSize=9)


def screened(chart: AnyChart) -> AnyChart:
    """The chart in the page's dress and width: one of the papers' takes its print dress off, and is the same otherwise."""
    if chart.config is alt.Undefined:
        return chart
    shown = chart.copy(deep=False)
    for dress in ("config", "background", "autosize", "padding", "width"):
        shown[dress] = alt.Undefined
    shown["height"] = PANEL * 1.5
    return shown.configure_legend(orient="top", title=None, labelLimit=0)


PANELS = 5
"""Panels in a row."""

FILLED = "<style>.st-key-profiles [data-testid=stVegaLiteChart]{overflow-x:auto}.st-key-profiles svg{width:100%;min-width:44rem;height:auto}</style>"
"""Panels have a width of their own: drawn as large as there is room, on a telephone to be moved sideways."""


def profiles(layers: pl.DataFrame, measures: dict[str, str]) -> alt.Chart:
    """One panel a measure over the layers, all marking the layer under the pointer. measures: column → title with unit."""
    long = layers.select("layer", *measures).unpivot(index="layer", variable_name="column").drop_nulls("value")
    long = long.with_columns(pl.col("column").replace_strict(measures).alias("measure"))
    hovered = alt.selection_point(name="hovered", fields=["layer"], on="pointerover", nearest=True, empty=False)
    base = alt.Chart(long).encode(
        x=alt.X("layer:O", title="Layer (from 0)", axis=alt.Axis(labelAngle=0, labelOverlap="parity")),
        y=alt.Y("value:Q", title=None),
        tooltip=[alt.Tooltip("measure:N", title="Measure"), alt.Tooltip("layer:O", title="Layer"), alt.Tooltip("value:Q", title="Value", format=".4g")],
    )
    line = base.mark_line(color=OKABE_ITO[0])
    points = base.mark_point(color=OKABE_ITO[0], filled=True).encode(size=alt.condition(hovered, alt.value(120), alt.value(20))).add_params(hovered)
    panels = alt.layer(line, points).properties(width=PANEL * 0.75, height=PANEL * 0.6)
    header = alt.Header(labelLimit=PANEL, labelFontSize=9)
    return panels.facet(facet=alt.Facet("measure:N", title=None, sort=list(measures.values()), header=header), columns=PANELS).resolve_scale(y="independent")


def histogram(bins: pl.DataFrame) -> alt.Chart:
    """Coefficients of a neuron: bins with lower_edge, upper_edge and share."""
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
    """Two columns against each other, as they are; a third, if any, as colour."""
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

"""Charts of the map. Pure: rows of its questions and an area in, Altair out."""

from typing import NamedTuple

import altair as alt
import polars as pl

from atlas.address import Neuron
from atlas.export.visible import visible
from ui.charts import AnyChart

WIDTH, HEIGHT = 600, 560
"""px that labels are fitted to: the narrowest that the page is shown in, and pt in print."""

FONT, CHARACTER, LINE, LONGEST = 11, 6.6, 13, 14
"""px of a label's letters, of the room for each and for a line; characters of a token in it."""

LARGEST = 484
"""Size of the fullest cell's circle: 22 px across, as a cell of the whole map."""

LAYERS = ["#0072B2", "#D55E00"]
"""First and last layer: blue and vermilion, which all eyes tell apart, each 3:1 or more against the paper."""

INK, PAPER, EDGE = "#111111", "#FFFFFF", "#BBBBBB"
"""As texts with coefficients have them: the same on a light page and a dark one, so that labels are legible on both."""


class Area(NamedTuple):
    """Edges of a part of the plane."""

    x_min: float
    x_max: float
    y_min: float
    y_max: float


def cells(rows: pl.DataFrame, area: Area, n_layers: int, things: str) -> AnyChart:
    """Rows of map_cells: a circle each, larger for more points, its mean layer as colour, and labels where they fit."""
    labels = cell_labels(rows, area)
    tokens = [" · ".join(visible(t) for t in found) for found in rows["tokens"].to_list()]
    shown = rows.select("x", "y", "n_points", "mean_layer", "lowest_layer", "highest_layer").with_columns(
        pl.Series("tokens", tokens), pl.Series("label", labels)
    )
    base = alt.Chart(shown).encode(x=across(area), y=up(area))
    circles = base.mark_circle(fillOpacity=0.4, strokeOpacity=1).encode(
        size=alt.Size("n_points:Q", title=things.capitalize(), scale=alt.Scale(range=[0, LARGEST], domainMin=0), legend=alt.Legend(tickCount=3, format=",d")),
        color=layer_colour("mean_layer", "Mean layer", n_layers),
        stroke=alt.Stroke("mean_layer:Q", legend=None, scale=layer_scale(n_layers)),
        tooltip=[
            alt.Tooltip("tokens:N", title="promote"),
            alt.Tooltip("n_points:Q", title=things, format=","),
            alt.Tooltip("lowest_layer:Q", title="lowest layer"),
            alt.Tooltip("highest_layer:Q", title="highest layer"),
        ],
    )
    text = base.transform_filter("datum.label != ''").encode(text="label:N")
    # the same letters beneath, drawn wide in the paper's colour: circles do not cross a word
    halo = text.mark_text(color=PAPER, stroke=PAPER, strokeWidth=3, strokeOpacity=0.8, fontSize=FONT)
    return framed(alt.layer(circles.add_params(brush()), halo, text.mark_text(color=INK, fontSize=FONT)))


def points(rows: pl.DataFrame, area: Area, n_layers: int) -> AnyChart:
    """Rows of map_points, one mark each, its layer as colour."""
    columns = ["layer", "neuron", "position_id", "token"]
    names = [str(Neuron(i, n)) if n is not None else f"position {p}, {visible(t)}, layer {i}" for i, n, p, t in rows.select(columns).iter_rows()]
    tokens = [" · ".join(visible(t) for t in found) for found in rows["tokens"].to_list()]
    shown = rows.select("x", "y", "layer").with_columns(pl.Series("name", names), pl.Series("tokens", tokens))
    marks = alt.Chart(shown).mark_circle(size=30, opacity=0.7).encode(
        x=across(area),
        y=up(area),
        color=layer_colour("layer", "Layer", n_layers),
        tooltip=[alt.Tooltip("name:N", title="point"), alt.Tooltip("tokens:N", title="promotes")],
    )  # fmt: skip
    return framed(marks.add_params(brush()))


def brush() -> alt.Parameter:
    """Its edges reach the page as selection.area.x and .y."""
    return alt.selection_interval(name="area", encodings=["x", "y"])


BARE = alt.Axis(labels=False, ticks=False, grid=False, title=None, domain=False)
"""Without numbers: coordinates have no unit."""


def across(area: Area) -> alt.X:
    return alt.X("x:Q", axis=BARE, scale=alt.Scale(domain=[area.x_min, area.x_max], nice=False, zero=False))


def up(area: Area) -> alt.Y:
    return alt.Y("y:Q", axis=BARE, scale=alt.Scale(domain=[area.y_min, area.y_max], nice=False, zero=False))


def layer_colour(column: str, title: str, n_layers: int) -> alt.Color:
    return alt.Color(f"{column}:Q", title=title, scale=layer_scale(n_layers), legend=alt.Legend(gradientLength=120, tickCount=4, format="d"))


def layer_scale(n_layers: int) -> alt.Scale:
    return alt.Scale(domain=[0, max(n_layers - 1, 1)], range=LAYERS, interpolate="lab")


def framed(chart: AnyChart) -> AnyChart:
    return chart.properties(width=WIDTH, height=HEIGHT, view=alt.ViewBackground(fill=PAPER, stroke=EDGE))


def cell_labels(rows: pl.DataFrame, area: Area) -> list[str]:
    """A label for each row, the fullest cell first: two tokens if they fit, else one, else ''. No label touches another or leaves the chart."""
    places: list[tuple[float, float, float]] = []
    return [place_label(x, y, found, area, places) for x, y, found in rows.select("x", "y", "tokens").iter_rows()]


def place_label(x: float, y: float, tokens: list[str], area: Area, places: list[tuple[float, float, float]]) -> str:
    """The label of a cell; the place it takes, (left, right, middle) in px, is added to `places`."""
    across = (x - area.x_min) / (area.x_max - area.x_min) * WIDTH
    down = (area.y_max - y) / (area.y_max - area.y_min) * HEIGHT
    for n in (2, 1):
        label = " · ".join(shortened(visible(t)) for t in tokens[:n])
        left, right = across - len(label) * CHARACTER / 2, across + len(label) * CHARACTER / 2
        touched = any(left < end and right > start and abs(down - d) < LINE for start, end, d in places)
        if label and left >= 0 and right <= WIDTH and not touched:
            places.append((left, right, down))
            return label
    return ""


def shortened(token: str) -> str:
    return token if len(token) <= LONGEST else f"{token[: LONGEST - 1]}…"

"""Charts of the map. Pure: rows of its questions and an area in, Altair out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import altair as alt
import polars as pl

from atlas.address import Neuron
from atlas.export.visible import visible_text
from ui.charts import AnyChart
from ui.map.labels import FONT, Area, NamedPoint, names, place

WIDTH, HEIGHT = 600, 560
"""Size in px, and in pt in print; on a page the chart takes all the width that there is, at the same height."""

FITTED = (300, 600, 900)
"""Chart widths, in px, that names are chosen for. A chart shows the names for the largest width that it reaches, so that a wider chart has more names."""

LAYERS = ["#0072B2", "#D55E00"]
"""Colours of the first and the last layer: blue and vermilion, which all eyes tell apart, each with a contrast of 3:1 or more on either background."""

FOUND = "#009E73"
"""Colour of search results: neither one of the layers' colours nor between them."""


class Dress(NamedTuple):
    """Colours of letters, of the background, and of the frame."""

    ink: str
    paper: str
    edge: str


LIGHT, DARK = Dress("#111111", "#FFFFFF", "#BBBBBB"), Dress("#ECECEC", "#1C1E24", "#555555")


def cells(density: pl.DataFrame, labelled: pl.DataFrame, area: Area, n_layers: int, things: str, dress: Dress = LIGHT) -> AnyChart:
    """Draw rows of map_density as squares, more opaque for more points, with mean layer as colour. Names come from rows of map_cells, where they fit."""
    squares = (
        alt.Chart(density.with_columns(x2=pl.col("x") + pl.col("side"), y2=pl.col("y") + pl.col("side")))
        .mark_rect()
        .encode(
            x=x_encoding(area),
            y=y_encoding(area),
            x2="x2:Q",
            y2="y2:Q",
            color=layer_colour("mean_layer", "Mean layer", n_layers),
            opacity=alt.Opacity("n_points:Q", scale=alt.Scale(type="log", range=[0.25, 0.9]), legend=None),
            tooltip=[alt.Tooltip("n_points:Q", title=things, format=","), alt.Tooltip("mean_layer:Q", title="mean layer", format=".1f")],
        )
    )
    named = [NamedPoint(x, y, names(tokens)) for x, y, tokens in labelled.select("x", "y", "tokens").iter_rows()]
    return frame_layers([squares.add_params(brush()), *letters(named, area, dress)], dress)


def points(rows: pl.DataFrame, area: Area, n_layers: int, dress: Dress = LIGHT, href: Callable[[dict[str, object]], str | None] = lambda _: None) -> AnyChart:
    """Draw rows of map_points, one mark each, with the layer as colour and a name where it fits. `href`: row → address that its mark leads to."""
    shown = rows.select("x", "y", "layer").with_columns(
        pl.Series("name", [name_of(row) for row in rows.iter_rows(named=True)], dtype=pl.String),
        pl.Series("tokens", [" · ".join(visible_text(t) for t in found or []) for found in rows["tokens"].to_list()], dtype=pl.String),
        pl.Series("href", [href(row) for row in rows.iter_rows(named=True)], dtype=pl.String),
    )
    marks = alt.Chart(shown).mark_circle(size=45, opacity=0.75).encode(
        x=x_encoding(area),
        y=y_encoding(area),
        color=layer_colour("layer", "Layer", n_layers),
        tooltip=[alt.Tooltip("name:N", title="point"), alt.Tooltip("tokens:N", title="promotes")],
        **({"href": alt.Href("href:N")} if shown["href"].null_count() < shown.height else {}),
    )  # fmt: skip
    named = [NamedPoint(x, y, [f"{name} {first}", name]) for x, y, name, first in zip(rows["x"], rows["y"], shown["name"], first_names(rows), strict=True)]
    return frame_layers([marks.add_params(brush()), *letters(named, area, dress, above=10)], dress)


def add_found_rings(chart: AnyChart, rows: pl.DataFrame, area: Area) -> AnyChart:
    """Draw rows of map_found as rings upon a chart of the map; those outside the area are left out."""
    inside = rows.filter(pl.col("x").is_between(area.x_min, area.x_max), pl.col("y").is_between(area.y_min, area.y_max))
    shown = inside.select("x", "y").with_columns(pl.Series("name", [name_of(row) for row in inside.iter_rows(named=True)], dtype=pl.String))
    rings = alt.Chart(shown).mark_point(size=160, strokeWidth=3, color=FOUND, filled=False, opacity=1).encode(
        x=x_encoding(area), y=y_encoding(area), tooltip=[alt.Tooltip("name:N", title="found")]
    )  # fmt: skip
    return chart if shown.is_empty() else chart + rings


def name_of(row: dict[str, object]) -> str:
    """Name a point: 'L3N17', 'position 136 after layer 3'."""
    return str(Neuron(row["layer"], row["neuron"])) if row["neuron"] is not None else f"position {row['position_id']} after layer {row['layer']}"  # type: ignore[arg-type]


def first_names(rows: pl.DataFrame) -> list[str]:
    """Find the first token that each row promotes, '' if there is none."""
    return [(names(found[:1]) or [""])[0] for found in (tokens or [] for tokens in rows["tokens"].to_list())]


def letters(named: Sequence[NamedPoint], area: Area, dress: Dress, above: float = 0) -> list[alt.Chart]:
    """Draw the names chosen for each width of FITTED; the chart shows those for its own width. A halo in the background's colour is beneath each name."""
    of_width = {f"at_{width}": [label.text for label in place(named, area, width, HEIGHT, above=above)] for width in FITTED}
    shown = pl.DataFrame({"x": [float(n.x) for n in named], "y": [float(n.y) for n in named], **of_width}, schema_overrides=dict.fromkeys(of_width, pl.String))
    shown = shown.filter(pl.any_horizontal(pl.col(*of_width) != ""))
    narrow, middle, wide = (f"datum.at_{width}" for width in FITTED)
    base = (
        alt.Chart(shown)
        .transform_calculate(label=f"width < {FITTED[0]} ? '' : width < {FITTED[1]} ? {narrow} : width < {FITTED[2]} ? {middle} : {wide}")
        .transform_filter("datum.label != ''")
        .encode(x=x_encoding(area), y=y_encoding(area), text="label:N")
    )
    halo = base.mark_text(color=dress.paper, stroke=dress.paper, strokeWidth=3, strokeOpacity=0.85, fontSize=FONT, dy=-above)
    return [halo, base.mark_text(color=dress.ink, fontSize=FONT, dy=-above)]


def brush() -> alt.Parameter:
    """Build the selection of an area with a rectangle, whose edges reach the page as selection.area.x and .y."""
    return alt.selection_interval(name="area", encodings=["x", "y"])


BARE = alt.Axis(labels=False, ticks=False, grid=False, title=None, domain=False)
"""Axis without numbers, since coordinates have no unit."""


def x_encoding(area: Area) -> alt.X:
    return alt.X("x:Q", axis=BARE, scale=alt.Scale(domain=[area.x_min, area.x_max], nice=False, zero=False))


def y_encoding(area: Area) -> alt.Y:
    return alt.Y("y:Q", axis=BARE, scale=alt.Scale(domain=[area.y_min, area.y_max], nice=False, zero=False))


def layer_colour(column: str, title: str, n_layers: int) -> alt.Color:
    """Build the colour encoding by layer. Its legend is above the chart, where it takes no width."""
    legend = alt.Legend(orient="top", direction="horizontal", gradientLength=160, tickCount=min(4, max(n_layers - 1, 1)), format="d")
    return alt.Color(f"{column}:Q", title=title, scale=alt.Scale(domain=[0, max(n_layers - 1, 1)], range=LAYERS, interpolate="lab"), legend=legend)


def frame_layers(layers: Sequence[alt.Chart], dress: Dress) -> AnyChart:
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, view=alt.ViewBackground(fill=dress.paper, stroke=dress.edge))

"""The map page's parts: what is placed, which area is looked at, and what lies there."""

from math import isfinite

import streamlit as st

from schema.errors import AtlasError
from schema.terms import LAYOUTS
from ui import asked, blocks, charts, data, map_charts
from ui.map_charts import Area

MOST_POINTS = 5_000
"""Shown one by one, in a part of the map; more are shown as cells, and so is the whole map."""

TITLES = {"value": "Map of values", "resid_post": "Map of traced states"}

THINGS = {"value": "values", "resid_post": "states"}

NEAR = (
    "that point the same way lie near each other; the directions of the plane mean nothing. "
    "A circle stands for those about it, and its label is what sets them apart:"
)

MEANINGS = {
    "value": f"Values, of all layers, {NEAR} the tokens that they promote.",
    "resid_post": f"States after each layer, at traced positions, {NEAR} the tokens that lead their logit lens.",
}

LACKING = {
    "value": ("Nothing has been placed in the plane yet.", "atlas ingest NAME.duckdb --model … --corpus … --map"),
    "resid_post": ("No traced state has been placed in the plane yet.", "atlas ingest NAME.duckdb --model … --corpus … --trace 300 --map"),
}
"""What is said where there is no layout, and what to run."""

VALUE_COLUMNS, STATE_COLUMNS = ["layer", "neuron", "tokens"], ["layer", "position_id", "token", "final_token", "tokens"]
CELL_COLUMNS = ["tokens", "n_points", "mean_layer", "lowest_layer", "highest_layer"]


def choose_layout() -> str:
    return asked.word("What is placed", "layout", list(LAYOUTS))


def choose_layer() -> int | None:
    """None takes all."""
    return asked.number("Layer", "map_layer", value=None, placeholder="all", width=140)


def whole(layout: str) -> Area | None:
    """The extent of a layout; None if there is none."""
    cells = data.ask("map_cells", layout=layout).frame
    if cells.is_empty():
        return None
    x, y, half = cells["x"].to_numpy(), cells["y"].to_numpy(), cells["side"][0] / 2
    return Area(float(x.min() - half), float(x.max() + half), float(y.min() - half), float(y.max() + half))


def chosen() -> Area | None:
    """The area in the address. Raises AtlasError for what is none."""
    text = st.query_params.get("area", "")
    if not text:
        return None
    try:
        area = Area(*(float(part) for part in text.split(",")))
    except (ValueError, TypeError):
        area = Area(0, 0, 0, 0)
    if not (all(map(isfinite, area)) and area.x_min < area.x_max and area.y_min < area.y_max):
        raise AtlasError(f"the address asks for area {text}; an area is x_min,x_max,y_min,y_max, the smaller first")
    return area


def go(area: Area | None) -> None:
    """Look at an area, None for all: it stands in the address, so that a link restores it."""
    if area is None:
        st.query_params.pop("area", None)
    else:
        st.query_params["area"] = ",".join(f"{edge:.6g}" for edge in area)


def brushed(key: str) -> None:
    """To the area that was drawn on the chart of that key."""
    drawn = st.session_state[key].selection.get("area") or {}
    if "x" in drawn and "y" in drawn:
        go(Area(*sorted(drawn["x"]), *sorted(drawn["y"])))


def wider(area: Area, everything: Area) -> Area | None:
    """Twice as wide and high about the same middle; None if that is all."""
    width, height = area.x_max - area.x_min, area.y_max - area.y_min
    out = Area(area.x_min - width / 2, area.x_max + width / 2, area.y_min - height / 2, area.y_max + height / 2)
    covers = out.x_min <= everything.x_min and out.x_max >= everything.x_max and out.y_min <= everything.y_min and out.y_max >= everything.y_max
    return None if covers else out


def buttons(area: Area | None, everything: Area) -> None:
    st.button("Zoom out", icon=":material/zoom_out:", disabled=area is None, on_click=lambda: go(wider(area or everything, everything)))
    st.button("Whole map", icon=":material/zoom_out_map:", disabled=area is None, on_click=go, args=(None,))


def show(layout: str, layer: int | None, area: Area | None, everything: Area, n_layers: int) -> None:
    """What lies in an area, None for all: cells, or points one by one where they are few; as a chart that can be drawn on, and as a table."""
    edges = area._asdict() if area else {}
    cells = data.ask("map_cells", layout=layout, layer=layer, **edges)
    n, shown, things = int(cells.frame["n_points"].sum()), area or everything, THINGS[layout]
    if not n:
        blocks.empty(f"No {things} lie in this area.")
        return
    key = f"map-{layout}-{layer}-{area}"
    if area is None or n > MOST_POINTS:
        st.text(f"{n:,} {things} in {cells.frame.height:,} cells. Draw a rectangle on the map to look closer.")
        draw(map_charts.cells(cells.frame, shown, n_layers, things), cells, key)
        blocks.table(cells, f"{key}-rows", columns=CELL_COLUMNS, height=400)
    else:
        st.text(f"{n:,} {things}. Draw a rectangle on the map to look closer.")
        found = data.ask("map_points", layout=layout, layer=layer, n=MOST_POINTS, **edges)
        draw(map_charts.points(found.frame, shown, n_layers), found, key)
        blocks.table(found, f"{key}-rows", columns=VALUE_COLUMNS if layout == "value" else STATE_COLUMNS, height=400)


def draw(chart: charts.AnyChart, answer: data.Answer, key: str) -> None:
    """A chart to draw on: the rectangle becomes the area looked at."""
    st.altair_chart(chart, key=key, width="stretch", on_select=lambda: brushed(key), selection_mode="area", alt=answer.title)
    blocks.take_away(answer, key, chart)

"""The Map page: the choice of a layout and an area, what is in the area, and the places of search results."""

from collections.abc import Callable
from math import isfinite

import polars as pl
import streamlit as st

from atlas.address import Neuron, parse_address
from atlas.beside.collections.bounds import MOST_MEMBERS
from atlas.export.visible import SPACE
from schema.errors import AtlasError
from schema.terms import LAYOUTS
from ui import address_widgets, blocks, charts, data, links
from ui.map import charts as map_charts
from ui.map.labels import Area
from ui.tray import collecting

MOST_POINTS = 5_000
"""Maximum number of points of an area that are shown one by one; more points are shown as cells, and so is the whole map."""

TITLES = {"value": "Map of values", "resid_post": "Map of traced states"}

THINGS = {"value": "values", "resid_post": "states"}

NEAR = (
    "that point the same way lie near each other; the directions of the plane mean nothing. A name shows what distinguishes the points around it from the rest:"
)

MEANINGS = {
    "value": f"Values, of all layers, {NEAR} the tokens that they promote.",
    "resid_post": f"States after each layer, at traced positions, {NEAR} the tokens that lead their logit lens.",
}

LACKING = {
    "value": ("Nothing has been placed in the plane yet.", "atlas ingest NAME.duckdb --model … --corpus … --map"),
    "resid_post": ("No traced state has been placed in the plane yet.", "atlas ingest NAME.duckdb --model … --corpus … --trace 300 --map"),
}
"""Layout → the message if the atlas does not have it, and the command to run."""

VALUE_COLUMNS, STATE_COLUMNS = ["layer", "neuron", "tokens"], ["layer", "position_id", "token", "final_token", "tokens"]
CELL_COLUMNS = ["tokens", "n_points", "mean_layer", "lowest_layer", "highest_layer"]


def choose_layout() -> str:
    return address_widgets.ask_word("What is placed", "layout", list(LAYOUTS))


def choose_layer() -> int | None:
    """Ask for a layer; None stands for all."""
    return address_widgets.ask_whole_number("Layer", "map_layer", value=None, placeholder="all", width=140)


def layout_extent(layout: str) -> Area | None:
    """Compute the extent of a layout; None if there is none."""
    squares = data.ask("map_density", layout=layout).frame
    if squares.is_empty():
        return None
    x, y, side = squares["x"].to_numpy(), squares["y"].to_numpy(), squares["side"][0]
    return Area(float(x.min()), float(x.max() + side), float(y.min()), float(y.max() + side))


def read_area() -> Area | None:
    """Read the area from the address; None if it has none. Raises AtlasError if its value is not an area."""
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


def go_to_area(area: Area | None) -> None:
    """Show an area, None for the whole map. The area is put into the address, so that a link restores it."""
    if area is None:
        st.query_params.pop("area", None)
    else:
        st.query_params["area"] = ",".join(f"{edge:.6g}" for edge in area)


def open_brushed_area(key: str) -> None:
    """Show the area that was drawn on the chart with this key."""
    drawn = st.session_state[key].selection.get("area") or {}
    if "x" in drawn and "y" in drawn:
        go_to_area(Area(*sorted(drawn["x"]), *sorted(drawn["y"])))


def widen_area(area: Area, everything: Area) -> Area | None:
    """Double the width and height of an area about the same middle; None if the result covers the whole map."""
    width, height = area.x_max - area.x_min, area.y_max - area.y_min
    out = Area(area.x_min - width / 2, area.x_max + width / 2, area.y_min - height / 2, area.y_max + height / 2)
    covers = out.x_min <= everything.x_min and out.x_max >= everything.x_max and out.y_min <= everything.y_min and out.y_max >= everything.y_max
    return None if covers else out


def buttons(area: Area | None, everything: Area) -> None:
    st.button("Zoom out", icon=":material/zoom_out:", disabled=area is None, on_click=lambda: go_to_area(widen_area(area or everything, everything)))
    st.button("Whole map", icon=":material/zoom_out_map:", disabled=area is None, on_click=go_to_area, args=(None,))


def find_on_map(layout: str, layer: int | None) -> data.Answer | None:
    """Find the places of the address or token in the search field; None if it is empty. Raises AtlasError if this model does not have the neuron or token."""
    text = st.text_input("Find on the map", key="find", bind="query-params", placeholder="L20N100 or a token", width=220).strip().replace(SPACE, " ")
    if not text:
        return None
    where = address(text)
    if where is None:
        return data.ask("map_found", token=text.strip(), layer=layer, layout=layout)
    return data.ask("map_found", layer=where.layer, neuron=where.neuron, layout=layout)


def address(text: str) -> Neuron | None:
    """Read the neuron that a text names; None if it names none."""
    try:
        found = parse_address(text)
    except AtlasError:
        return None
    return found if isinstance(found, Neuron) else None


def show(layout: str, layer: int | None, area: Area | None, everything: Area, n_layers: int, found: data.Answer | None) -> None:
    """Show a chart to draw on and a table of the points in an area (None: the whole map). Both show cells of points, or single points if they are few."""
    edges = area._asdict() if area else {}
    density = data.ask("map_density", layout=layout, layer=layer, **edges)
    n, shown, things = int(density.frame["n_points"].sum()), area or everything, THINGS[layout]
    if found is not None:
        st.text(describe_found(found, things, shown))
    if not n:
        blocks.explain_empty(f"No {things} lie in this area.")
        return
    key, dress = f"map-{layout}-{layer}-{area}", map_charts.DARK if st.context.theme.type == "dark" else map_charts.LIGHT
    rings = None if found is None else found.frame
    if area is None or n > MOST_POINTS:
        cells = data.ask("map_cells", layout=layout, layer=layer, **edges)
        st.text(f"{n:,} {things} in {cells.frame.height:,} cells. Draw a rectangle on the map to look closer.")
        draw(lambda d: map_charts.cells(density.frame, cells.frame, shown, n_layers, things, d), rings, shown, dress, cells, key)
        columns = CELL_COLUMNS
        answer = cells
        if area is not None:
            # one more than a collection holds, which then says so
            collecting.offer_all(lambda: data.ask("map_points", layout=layout, layer=layer, n=MOST_MEMBERS + 1, **edges).frame, key)
    else:
        answer = data.ask("map_points", layout=layout, layer=layer, n=MOST_POINTS, **edges)
        st.text(f"{n:,} {things}. Draw a rectangle on the map to look closer; click a point to open its neuron or position.")
        draw(lambda d: map_charts.points(answer.frame, shown, n_layers, d, point_href), rings, shown, dress, answer, key)
        columns = VALUE_COLUMNS if layout == "value" else STATE_COLUMNS
    if found is not None and not found.frame.is_empty():
        st.subheader("What was found")
        blocks.table(
            found, f"{key}-found", columns=[c for c in ("layer", "neuron", "position_id", "rank", "score", "tokens") if found.frame[c].count()], height=300
        )
        st.subheader("What lies in this area")
    blocks.grid(answer.frame.select(columns), answer.frame, f"{key}-rows", answer.title, answer.columns, height=400)


def describe_found(found: data.Answer, things: str, shown: Area) -> str:
    """Describe how many points were found, and how many of them are outside the area."""
    n = found.frame.height
    inside = found.frame.filter(found.frame["x"].is_between(shown.x_min, shown.x_max) & found.frame["y"].is_between(shown.y_min, shown.y_max)).height
    if not n:
        return f"None of the {things} on this map is what was searched for, or has it among the first ten tokens that it promotes."
    return f"{n:,} found, ringed in green{'' if inside == n else f'; {n - inside:,} of them lie outside this area'}."


def point_href(row: dict[str, object]) -> str | None:
    """Write the address that a point leads to; None if it leads nowhere."""
    link = links.of_row(row)
    return None if link is None else links.href(link)


def draw(
    of_dress: Callable[[map_charts.Dress], charts.AnyChart], rings: pl.DataFrame | None, shown: Area, dress: map_charts.Dress, answer: data.Answer, key: str
) -> None:
    """Show a chart to draw on: a rectangle drawn on it becomes the area shown. In print its colours are always the light ones."""
    screen, paper = (made if rings is None else map_charts.add_found_rings(made, rings, shown) for made in map(of_dress, (dress, map_charts.LIGHT)))
    st.altair_chart(screen, key=key, width="stretch", on_select=lambda: open_brushed_area(key), selection_mode="area", alt=answer.title)
    blocks.take_away(answer, key, paper)

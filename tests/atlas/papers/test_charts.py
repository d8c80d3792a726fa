"""Every chart is valid, draws columns that exist, and keeps all its text inside the picture in a font that the file holds."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

import atlas
from atlas import charts
from atlas.charts import GAP, heat_map
from atlas.export.rendering import DPI, FIGURE_FORMATS, render_figure
from tests.atlas.papers.rows import ITEMS, rows_of
from tests.pdf import characters, fonts, is_whole, pages

DRAWN = [name for name, item in ITEMS.items() if item.chart is not None]
SVG = "{http://www.w3.org/2000/svg}"


def fields(spec: object) -> set[str]:
    """Every column that an encoding reads."""
    if isinstance(spec, list):
        return {field for part in spec for field in fields(part)}
    if not isinstance(spec, dict):
        return set()
    own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
    return own | {field for key, part in spec.items() if key != "datasets" for field in fields(part)}


@pytest.fixture(scope="module")
def drawn(a: atlas.Atlas) -> Callable[[str], Any]:
    """An item's chart, made once for all tests of this file."""
    return cache(lambda name: ITEMS[name].chart(rows_of(a, ITEMS[name])))  # type: ignore[misc]


@pytest.mark.parametrize("name", DRAWN)
def test_a_chart_is_valid_and_reads_columns_that_exist(drawn: Callable[[str], Any], name: str) -> None:
    spec = drawn(name).to_dict(validate=True)
    columns = {column for rows in spec["datasets"].values() for row in rows for column in row}
    assert fields(spec) <= columns
    assert spec["width"] in (charts.COLUMN, charts.PAGE)


def titles(spec: dict) -> set[str]:
    """Titles of the axes."""
    encodings = [layer["encoding"] for layer in spec.get("layer", [spec])]
    return {encoding[axis]["title"] for encoding in encodings for axis in ("x", "y") if encoding.get(axis, {}).get("title")}


@pytest.mark.first_cases(12)
@pytest.mark.parametrize("name", DRAWN)
def test_all_text_lies_inside_the_picture(drawn: Callable[[str], Any], tmp_path: Path, name: str) -> None:
    (tmp_path / "t.pdf").write_bytes(render_figure(drawn(name), "pdf"))
    (page,) = pages(tmp_path / "t.pdf")
    placed = [c for c in characters(page) if not c.get_text().isspace()]
    assert page.width == drawn(name).width
    assert len(placed) > 20
    for c in placed:
        assert c.x0 >= 0 and c.y0 >= 0 and c.x1 <= page.width and c.y1 <= page.height, c
    held = fonts(tmp_path / "t.pdf")
    assert held and all(re.fullmatch(r"[A-Z]{6}\+LiberationSans\S*", font["BaseFont"].name) and is_whole(font) for font in held)


@pytest.mark.parametrize("name", DRAWN)
def test_the_text_of_an_svg_is_text(drawn: Callable[[str], Any], name: str) -> None:
    root = ElementTree.fromstring(render_figure(drawn(name), "svg"))
    texts = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    named = titles(drawn(name).to_dict())
    assert named and named <= set(texts)


@pytest.mark.thorough
def test_svg_and_png_are_the_same_bytes_every_time_and_png_is_fit_for_print(a: atlas.Atlas) -> None:
    chart = ITEMS["geva2022_table4"].chart
    assert chart is not None
    for format in ("svg", "png"):
        first, second = (render_figure(chart(rows_of(a, ITEMS["geva2022_table4"])), format) for _ in range(2))
        assert first == second
    width = int.from_bytes(first[16:20], "big")
    assert abs(width - charts.PAGE / 72 * DPI) < 2
    assert render_figure(chart(rows_of(a, ITEMS["geva2022_table4"])), "pdf").startswith(b"%PDF")
    assert set(FIGURE_FORMATS) == {"pdf", "svg", "png"}


@pytest.mark.parametrize(("n_layers", "step"), [(3, 1), (16, 1), (30, 2), (48, 4), (96, 8)])
def test_layers_are_whole_numbers_that_do_not_touch(n_layers: int, step: int) -> None:
    frame = pl.DataFrame({"layer": list(range(n_layers)), "share": [i / n_layers for i in range(n_layers)]})
    shown = [text for text in svg_texts(charts.lines(frame, y="share", y_title="Share", format="%")) if text.isdigit()]
    assert shown == [str(layer) for layer in range(0, n_layers, step)]


def test_a_long_legend_is_broken_into_rows() -> None:
    names = [f"a series of some length {i}" for i in range(4)]
    frame = pl.DataFrame({"layer": [0, 1] * 4, "series": [n for n in names for _ in range(2)], "value": range(8)})
    assert set(names) <= set(svg_texts(charts.lines(frame, y="value", y_title="Value", series="series", order=names)))
    assert charts.legend(names, charts.COLUMN).to_dict()["columns"] == 2
    assert charts.legend(["a", "b", "c"], charts.COLUMN).to_dict()["columns"] == 3


def test_ticks_are_told_apart_where_significant_digits_would_lose_one() -> None:
    frame = pl.DataFrame({"layer": [1], "score": [0.117266]})
    labels = [text for text in svg_texts(charts.lines(frame, y="score", y_title="Score")) if text.startswith("0")]
    assert sorted(labels) == ["0", "0.02", "0.04", "0.06", "0.08", "0.1", "0.12"]


def test_missing_layers_are_drawn_as_none() -> None:
    found = charts.every_layer(pl.DataFrame({"layer": [2, 0], "n": [5, 1]}, schema_overrides={"layer": pl.Int16}))
    assert found.rows() == [(0, 1), (1, 0), (2, 5)]


def svg_texts(chart: object) -> list[str]:
    """What a reader sees: labels that would touch are there, and invisible."""
    root = ElementTree.fromstring(render_figure(chart, "svg"))  # type: ignore[arg-type]
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text") if element.get("opacity") != "0"]


def test_cells_of_a_map_of_sites_lie_within_the_frame_of_their_site() -> None:
    """Frames begin at fractions of a column, and so do their cells."""
    layers, sites = (0, 5, 10), ("resid_post", "attn_out", "ffn_out")
    rows = [{"row": 0, "site": site, "layer": layer, "effect": 0.5} for site in sites for layer in layers]
    drawn = heat_map(pl.DataFrame(rows), ["the"], "Effect").to_dict()
    cells, frames = (sorted((row["x"], row["x2"]) for row in data) for data in drawn["datasets"].values() if "x2" in data[0])
    if len(frames) > len(cells):
        cells, frames = frames, cells
    step = len(layers) + GAP
    assert frames == [pytest.approx((i * step, i * step + len(layers))) for i in range(3)]
    assert cells == [pytest.approx((i * step + j, i * step + j + 1)) for i in range(3) for j in range(3)]

"""The map: cells from afar, points from near, an area that a link restores, and labels where they fit."""

from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from schema import store
from tests.ui.conftest import Visit, tables, text_of
from ui import map as map_page
from ui.map_charts import HEIGHT, WIDTH, Area, cell_labels, cells, points


def test_few_points_are_shown_one_by_one_and_open_their_neuron(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "map", area="-1,4,-2,4")
    assert "12 values. Draw a rectangle" in text_of(app)
    assert "FROM map_points(x_min := -1.0::DOUBLE, x_max := 4.0::DOUBLE, y_min := -2.0::DOUBLE, y_max := 4.0::DOUBLE)" in text_of(app)
    shown = tables(app)[0]
    assert list(shown.columns) == ["layer", "neuron", "tokens"]
    assert shown.iloc[0].tolist() == [0, 0, "␣cat · ␣dog"]


def test_a_link_restores_layout_layer_and_area(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "map", layout="resid_post", map_layer="1", area="1,3,0,2.5")
    assert [t.value for t in app.title] == ["Map of traced states"]
    assert "2 states." in text_of(app)
    assert (
        "FROM map_points(layout := 'resid_post', x_min := 1.0::DOUBLE, x_max := 3.0::DOUBLE, y_min := 0.0::DOUBLE, y_max := 2.5::DOUBLE, layer := 1)"
        in text_of(app)
    )
    shown = tables(app)[0]
    assert list(shown.columns) == ["layer", "position_id", "token", "final_token", "tokens"]
    assert shown["position_id"].tolist() == [2, 8]


def test_the_whole_map_and_many_points_are_shown_as_cells(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = visit(tiny, "map")
    assert [t.value for t in app.title] == ["Map of values"]
    assert "12 values in 12 cells." in text_of(app)
    shown = tables(app)[0]
    assert list(shown.columns) == ["tokens", "n_points", "mean_layer", "lowest_layer", "highest_layer"]
    assert shown["n_points"].sum() == 12
    # L1N2, L1N3 and L2N3
    assert "3 values. Draw" in text_of(visit(tiny, "map", area="1,4,2,4"))
    monkeypatch.setattr(map_page, "MOST_POINTS", 2)
    assert "3 values in 3 cells. Draw" in text_of(visit(tiny, "map", area="1,4,2,4"))


def test_zooming_out_doubles_the_area_and_ends_at_the_whole_map(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "map", area="1,2,1,2")
    press = {button.label: button for button in app.button}
    press["Zoom out"].click().run()
    assert app.query_params["area"] == "0.5,2.5,0.5,2.5"
    {button.label: button for button in app.button}["Whole map"].click().run()
    assert "area" not in app.query_params
    assert {b.label: b.disabled for b in app.button if b.label in press} == {"Zoom out": True, "Whole map": True}
    assert map_page.wider(Area(0, 4, 0, 4), Area(-1, 5, -2, 6)) is None
    assert map_page.wider(Area(0, 4, 0, 4), Area(-1, 7, -2, 6)) == Area(-2, 6, -2, 6)


def test_what_is_drawn_becomes_the_area(monkeypatch: pytest.MonkeyPatch) -> None:
    page = SimpleNamespace(query_params={}, session_state={"a chart": SimpleNamespace(selection={"area": {"x": [2.5, 1.25], "y": [0.1234567, 3]}})})
    monkeypatch.setattr(map_page, "st", page)
    map_page.brushed("a chart")
    assert page.query_params == {"area": "1.25,2.5,0.123457,3"}
    assert map_page.chosen() == Area(1.25, 2.5, 0.123457, 3)
    page.session_state["a chart"].selection = {}
    map_page.brushed("a chart")
    assert page.query_params == {"area": "1.25,2.5,0.123457,3"}


@pytest.mark.parametrize("area", ["1,2,3", "a,b,c,d", "2,1,0,1", "0,inf,0,1", "0,1,nan,1"])
def test_an_area_that_is_none_is_said(visit: Visit, tiny: Path, area: str) -> None:
    app = visit(tiny, "map", area=area)
    assert f"the address asks for area {area}; an area is x_min,x_max,y_min,y_max" in text_of(app)
    assert not tables(app)


@pytest.mark.parametrize(("query", "said"), [({"map_layer": "3"}, "no layer 3"), ({"layout": "attn_out"}, "no layout attn_out; they are value, resid_post")])
def test_what_this_model_does_not_have_is_said(visit: Visit, tiny: Path, query: dict[str, str], said: str) -> None:
    assert said in text_of(visit(tiny, "map", **query))


def test_an_area_without_points_says_so(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "map", area="90,91,90,91")
    assert "No values lie in this area." in text_of(app)
    assert not {b.label: b.disabled for b in app.button}["Whole map"]


@pytest.mark.parametrize(("layout", "what"), [("value", "Nothing has been placed"), ("resid_post", "No traced state has been placed")])
def test_without_a_map_the_page_says_what_to_run(visit: Visit, tiny: Path, layout: str, what: str) -> None:
    con = store.open_writer(tiny)
    con.execute("DELETE FROM map_point")
    con.close()
    app = visit(tiny, "map", layout=layout)
    assert what in text_of(app) and "--map" in text_of(app)
    assert not app.exception and not app.error


AREA = Area(0, WIDTH, 0, HEIGHT)
"""One unit a px."""


def labels(*rows: tuple[float, float, list[str]]) -> list[str]:
    return cell_labels(pl.DataFrame(rows, schema=["x", "y", "tokens"], orient="row"), AREA)


def test_a_label_has_two_tokens_where_they_fit_else_one_else_none() -> None:
    """A character is 6.6 px wide: 'abc · def' 59.4, 'abc' 19.8."""
    assert labels((300, 300, ["abc", "def"])) == ["abc · def"]
    assert labels((300, 300, ["abc", "def"]), (345, 300, ["abc", "def"])) == ["abc · def", "abc"]
    assert labels((300, 300, ["abc", "def"]), (335, 300, ["abc", "def"])) == ["abc · def", ""]
    assert labels((300, 300, ["abc", "def"]), (335, 314, ["abc", "def"])) == ["abc · def", "abc · def"]


def test_a_label_does_not_leave_the_chart_and_is_not_longer_than_it_may_be() -> None:
    assert labels((5, 300, ["abc"]), (12, 200, ["abc", "def"]), (WIDTH - 5, 100, ["abc"])) == ["", "abc", ""]
    assert labels((300, 300, [" abcdefghijklmnop"])) == ["␣abcdefghijkl…"]


def test_charts_hold_what_the_rows_say() -> None:
    found = pl.DataFrame({
        "x": [1.0, 2.0], "y": [1.0, 2.0], "n_points": [9, 4], "mean_layer": [0.5, 2.0], "lowest_layer": [0, 2], "highest_layer": [1, 2],
        "tokens": [["\n", " a"], ["<script>"]],
    })  # fmt: skip
    spec = cells(found, Area(0, 3, 0, 3), 3, "values").to_dict()
    (rows,) = spec["datasets"].values()
    assert [row["tokens"] for row in rows] == ["↵ · ␣a", "<script>"]
    assert spec["params"][0]["name"] == "area"
    one = pl.DataFrame({"layer": [1], "neuron": [2], "position_id": [None], "token": [None], "tokens": [["a"]], "x": [1.0], "y": [2.0]})
    (rows,) = points(one, Area(0, 3, 0, 3), 3).to_dict()["datasets"].values()
    assert rows == [{"x": 1.0, "y": 2.0, "layer": 1, "name": "L1N2", "tokens": "a"}]

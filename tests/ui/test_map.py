"""The map: cells from afar, points from near, an area that a link restores, and what is looked for."""

from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from schema.open import store
from tests.ui.conftest import Visit, tables, text_of
from ui.map import room as map_page
from ui.map.charts import LIGHT, add_found_rings, cells, points
from ui.map.labels import Area
from ui.tray import collecting


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_region_becomes_a_collection_from_near_and_from_afar(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form that it opens is tested in test_tray.py."""
    opened: list[list[str]] = []
    monkeypatch.setattr(collecting, "collect", lambda things, key: opened.append([str(thing) for thing in things]))
    for most, label in ((2, "Add all to collection…"), (5_000, "Add to collection…")):
        monkeypatch.setattr(map_page, "MOST_POINTS", most)
        app = visit(tiny, "map", area="1,4,2,4")
        (button,) = (b for b in app.button if b.label in ("Add all to collection…", "Add to collection…"))
        assert button.label == label
        button.click().run()
    assert [sorted(things) for things in opened] == [["L1N2", "L1N3", "L2N3"]] * 2
    # the whole map is no region
    assert not [b for b in visit(tiny, "map").button if "collection" in b.label]


def test_zooming_out_doubles_the_area_and_ends_at_the_whole_map(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "map", area="1,2,1,2")
    press = {button.label: button for button in app.button}
    press["Zoom out"].click().run()
    assert app.query_params["area"] == "0.5,2.5,0.5,2.5"
    {button.label: button for button in app.button}["Whole map"].click().run()
    assert "area" not in app.query_params
    assert {b.label: b.disabled for b in app.button if b.label in ("Zoom out", "Whole map")} == {"Zoom out": True, "Whole map": True}
    assert map_page.widen_area(Area(0, 4, 0, 4), Area(-1, 5, -2, 6)) is None
    assert map_page.widen_area(Area(0, 4, 0, 4), Area(-1, 7, -2, 6)) == Area(-2, 6, -2, 6)


def test_what_is_drawn_becomes_the_area(monkeypatch: pytest.MonkeyPatch) -> None:
    page = SimpleNamespace(query_params={}, session_state={"a chart": SimpleNamespace(selection={"area": {"x": [2.5, 1.25], "y": [0.1234567, 3]}})})
    monkeypatch.setattr(map_page, "st", page)
    map_page.open_brushed_area("a chart")
    assert page.query_params == {"area": "1.25,2.5,0.123457,3"}
    assert map_page.read_area() == Area(1.25, 2.5, 0.123457, 3)
    page.session_state["a chart"].selection = {}
    map_page.open_brushed_area("a chart")
    assert page.query_params == {"area": "1.25,2.5,0.123457,3"}


@pytest.mark.parametrize("area", ["1,2,3", "a,b,c,d", "2,1,0,1", "1,1,0,1", "0,inf,0,1", "0,1,nan,1"])
def test_an_area_that_is_none_is_said(visit: Visit, tiny: Path, area: str) -> None:
    app = visit(tiny, "map", area=area)
    assert f"the address asks for area {area}; an area is x_min,x_max,y_min,y_max" in text_of(app)
    assert not tables(app)


@pytest.mark.parametrize(("query", "said"), [({"map_layer": "3"}, "no layer 3"), ({"layout": "attn_out"}, "no layout attn_out; available: value, resid_post")])
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


def test_charts_hold_what_the_rows_say() -> None:
    density = pl.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0], "side": [1.0, 1.0], "n_points": [9, 4], "mean_layer": [0.5, 2.0]})
    labelled = pl.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0], "tokens": [["\n", " <script>"], [" nation"]]})
    spec = cells(density, labelled, Area(0, 3, 0, 3), 3, "values").to_dict()
    squares, letters = spec["datasets"].values()
    assert [(row["x"], row["x2"], row["y2"], row["n_points"]) for row in squares] == [(0.0, 1.0, 1.0, 9), (1.0, 2.0, 2.0, 4)]
    assert [row["at_600"] for row in letters] == ["↵ · <script>", "nation"]
    assert spec["params"][0]["name"] == "area"


def test_a_point_has_its_name_its_tokens_and_where_it_leads() -> None:
    one = pl.DataFrame({"layer": [1], "neuron": [2], "position_id": [None], "token": [None], "tokens": [["a"]], "x": [1.0], "y": [2.0]})
    spec = points(one, Area(0, 3, 0, 3), 3, LIGHT, lambda row: f"/component?at=L{row['layer']}N{row['neuron']}").to_dict()
    rows, letters = spec["datasets"].values()
    assert rows == [{"x": 1.0, "y": 2.0, "layer": 1, "name": "L1N2", "tokens": "a", "href": "/component?at=L1N2"}]
    assert spec["layer"][0]["encoding"]["href"] == {"field": "href", "type": "nominal"}
    assert letters[0]["at_600"] == "L1N2 a"


def test_what_is_found_is_ringed_where_it_lies_in_the_area() -> None:
    one = pl.DataFrame({"layer": [1], "neuron": [2], "position_id": [None], "token": [None], "tokens": [["a"]], "x": [1.0], "y": [2.0]})
    area = Area(0, 3, 0, 3)
    plain = points(one, area, 3)
    assert add_found_rings(plain, one.with_columns(x=pl.lit(7.0)), area) is plain
    found = add_found_rings(plain, one, area).to_dict()["layer"][-1]
    assert found["mark"]["type"] == "point" and not found["mark"]["filled"]


@pytest.mark.parametrize(
    ("find", "said", "rows"),
    [
        ("dog", "6 found, ringed in green.", [2, 2, 2, 0, 0, 0]),
        ("␣dog", "6 found, ringed in green.", [2, 2, 2, 0, 0, 0]),
        ("l1n2", "1 found, ringed in green.", [2]),
        ("<s>", "None of the values on this map is what was searched for, or has it among the first ten", None),
    ],
)
def test_a_token_or_a_neuron_is_found_on_the_map(visit: Visit, tiny: Path, find: str, said: str, rows: list[int] | None) -> None:
    app = visit(tiny, "map", find=find)
    assert said in text_of(app)
    assert not app.exception and not app.error


@pytest.mark.thorough
def test_what_is_found_elsewhere_is_counted(visit: Visit, tiny: Path) -> None:
    # of dog's six L1N2 and L2N3's neighbours: (1, 2) lies here alone
    assert "6 found, ringed in green; 5 of them lie outside this area." in text_of(visit(tiny, "map", find="dog", area="0.5,4,1.5,4"))


@pytest.mark.parametrize(("find", "said"), [("L9N0", "no layer 9"), ("L0N99", "no neuron 99"), ("xyzzy", "no token 'xyzzy'")])
def test_what_this_model_does_not_have_is_not_looked_for(visit: Visit, tiny: Path, find: str, said: str) -> None:
    assert said in text_of(visit(tiny, "map", find=find))

"""Several atlases in one server: links choose one, the menu has the others, and `vs` shows a view of two with what differs first."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from atlas.api import Atlas
from schema.open import store
from tests.ui.conftest import Visit, htmls, text_of
from ui import beside, data
from ui.cli import ui
from ui.snapshot import MOST_SERVED, latest


@pytest.fixture
def other(tiny: Path) -> Path:
    """Of other weights, whose L0N1 promotes |, and no longer its first token, and whose value is twice as long."""
    path = Path(shutil.copy(tiny, tiny.with_name("other.duckdb")))
    con = store.open_writer(path)
    con.execute("UPDATE model SET weights_sha256 = 'xyz'")
    con.execute("UPDATE value_token SET token_id = 8 WHERE layer = 0 AND neuron = 1 AND direction = 'promoted' AND rank = 1")
    con.execute("UPDATE neuron SET value_norm = 2 * value_norm WHERE layer = 0 AND neuron = 1")
    con.close()
    return path


def serve(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    monkeypatch.setenv("ATLAS_SERVED", json.dumps(list(map(str, paths))))


@pytest.mark.thorough
def test_a_link_chooses_its_atlas_and_the_menu_has_the_other(tiny: Path, other: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, tiny, other)
    first, second = visit(tiny, "component", at="L0N1"), visit(tiny, "component", at="L0N1", of="xyz")
    bars = [next(html for html in htmls(app) if 'aria-label="Rooms"' in html) for app in (first, second)]
    assert "<b>tiny.duckdb</b>" in bars[0] and "<b>other.duckdb</b>" in bars[1]
    assert 'href="/component?at=L0N1&amp;of=xyz"' in bars[0] and 'href="/component?at=L0N1&amp;vs=xyz&amp;of=ww"' in bars[0]
    assert 'href="/component?at=L0N1&amp;of=ww"' in bars[1]
    assert "of=xyz" in "".join(htmls(second)) and "é" in text_of(second)


def test_a_link_of_a_model_that_is_not_served_shows_nothing_of_another(tiny: Path, other: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, tiny, other)
    app = visit(tiny, "component", at="L0N1", of="12345678")
    assert "this link belongs to a model with the weights 12345678" in text_of(app)
    assert "What triggers the key" not in text_of(app)


@pytest.mark.thorough
def test_of_two_atlases_of_the_same_weights_the_second_is_called_by_its_file(tiny: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Path(shutil.copy(tiny, tiny.with_name("twin.duckdb")))
    serve(monkeypatch, tiny, twin)
    app = visit(tiny, "overview", of="ww.twin")
    assert "<b>twin.duckdb</b>" in "".join(htmls(app)) and 'href="/?of=ww"' in "".join(htmls(app))


def test_one_that_has_gone_is_no_hindrance(tiny: Path, other: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, tiny, other)
    other.unlink()
    app = visit(tiny, "component", at="L0N1")
    assert not app.exception and "other.duckdb" not in "".join(htmls(app))


@pytest.mark.thorough
def test_beside_each_other_what_differs_stands_first(tiny: Path, other: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, tiny, other)
    app = visit(tiny, "component", at="L0N1", vs="xyz")
    assert not app.exception
    assert "<h1><bdi>tiny.duckdb beside other.duckdb</bdi></h1>" in htmls(app)
    tokens, numbers = (table.value for table in app.dataframe[:2])
    assert tokens[["only in", "token", "rank"]].values.tolist() == [["the first", "␣sat", 1], ["the second", "é", 1]]
    assert numbers.iloc[0]["number"] == "value_norm" and numbers.iloc[0]["change"] == pytest.approx(0.5)
    assert [frame.proto.src for frame in app.get("iframe")] == ["/component?at=L0N1&of=ww", "/component?at=L0N1&of=xyz"]


def test_of_a_head_beside_itself_tokens_and_where_it_looks_are_told(tiny: Path, other: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    con = store.open_writer(other)
    con.execute("UPDATE head_probe SET induction = 0.25 WHERE layer = 2 AND probe = 'repeat'")
    con.execute("UPDATE head SET ov_norm = 5 WHERE layer = 2")
    con.execute("UPDATE head_direction_token SET token_id = 8 WHERE layer = 2 AND circuit = 'ov' AND side = 'write' AND tail = 'max' AND rank = 1")
    con.close()
    serve(monkeypatch, tiny, other)
    app = visit(tiny, "component", at="L2H0", vs="xyz")
    assert not app.exception
    tokens, numbers = (table.value for table in app.dataframe[:2])
    assert "é" in set(tokens["token"]) and set(tokens["direction"]) == {"write"}
    # 0.75 and 4 in the tiny atlas
    assert numbers[["number", "tiny.duckdb", "other.duckdb"]].values.tolist() == [["induction, on repeats", 0.75, 0.25], ["ov_norm", 4.0, 5.0]]
    same = visit(tiny, "component", at="L1H0", vs="xyz")
    assert "None of its numbers differs." in text_of(same) and "in both" in text_of(same)


@pytest.mark.thorough
def test_a_head_of_atlases_that_know_nothing_of_heads_is_compared_all_the_same(tiny: Path, other: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tiny, other):
        con = store.open_writer(path)
        con.execute("DELETE FROM head; DELETE FROM head_direction_token; DELETE FROM head_statistics; DELETE FROM head_probe")
        con.close()
    serve(monkeypatch, tiny, other)
    app = visit(tiny, "component", at="L1H0", vs="xyz")
    assert not app.exception and "None of its numbers differs." in text_of(app)


@pytest.mark.thorough
def test_where_the_bar_leads_back_to_is_of_the_atlas_that_is_shown(tiny: Path, other: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, tiny, other)
    app = visit(tiny, "component", at="L2N3")
    for of, kept in (("ww", '<a href="/component?at=L2N3&amp;of=ww">Component</a>'), ("xyz", '<a href="/component?of=xyz">Component</a>')):
        app.query_params.clear()
        app.query_params["of"] = of
        app.switch_page("app_pages/map.py").run()
        assert kept in "".join(htmls(app))


@pytest.mark.thorough
def test_an_address_may_have_parameters_of_any_name(tiny: Path, other: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, tiny, other)
    alone, both = (visit(tiny, "component", at="L0N1", room="1", query="2", **more) for more in ({}, {"vs": "xyz"}))
    assert not alone.exception and not both.exception
    assert 'href="/component?at=L0N1&amp;room=1&amp;query=2&amp;of=xyz"' in "".join(htmls(alone))


def test_beside_an_empty_one_nothing_is_compared(empty: Path, other: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, empty, other)
    app = visit(empty, "component", at="L0N1", vs="xyz")
    assert not app.exception and len(app.get("iframe")) == 2


def test_a_file_name_is_no_markdown(tiny: Path, other: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, tiny, other.rename(other.with_name("![x](www.example.org).duckdb")))
    app = visit(tiny, "component", at="L0N1", vs="xyz")
    assert not app.title and "<h1><bdi>tiny.duckdb beside ![x](www.example.org).duckdb</bdi></h1>" in htmls(app)


def test_an_atlas_that_is_not_served_is_said(tiny: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, tiny)
    assert "no atlas <x> is served here; the atlases are ww" in text_of(visit(tiny, "component", at="L0N1", vs="<x>"))


def test_of_models_of_other_shapes_no_address_is_compared(tiny: Path, other: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    con = store.open_writer(other)
    con.execute("UPDATE model SET n_heads = n_heads + 1")
    con.close()
    serve(monkeypatch, tiny, other)
    app = visit(tiny, "component", at="L0N1", vs="xyz")
    assert "so L0N1 is not the same place in both" in text_of(app) and not app.dataframe


def test_a_number_that_is_missing_or_zero_has_no_change_to_divide_by() -> None:
    assert beside.change(None, 1.0) is None
    assert beside.change(0.0, 0.0) == 0.0
    found = beside.numbers(pl.DataFrame({"a": [1.0], "b": [0.0]}), pl.DataFrame({"a": [1.0], "b": [3.0]}), ("x", "x"))
    assert found.rows() == [("b", 0.0, 3.0, 1.0)]


def test_each_file_that_is_given_must_be_an_atlas(tiny: Path) -> None:
    ran = CliRunner().invoke(ui, [str(tiny), str(tiny.with_name("none.duckdb"))])
    assert "no atlas at" in str(ran.exception) or "none.duckdb" in str(ran.exception)
    assert CliRunner().invoke(ui, [], env={"ATLAS_DB": None}).exit_code == 2


@pytest.mark.thorough
def test_no_more_atlases_are_served_than_stay_open(tiny: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    several = [tiny, *(Path(shutil.copy(tiny, tiny.with_name(f"t{i}.duckdb"))) for i in range(1, MOST_SERVED))]
    ran = CliRunner().invoke(ui, [*map(str, several), "one-more.duckdb"])
    assert ran.exit_code == 2 and f"{MOST_SERVED + 1} atlases were given, but one server shows at most {MOST_SERVED}" in ran.output
    serve(monkeypatch, *several)
    visit(tiny, "overview")
    first = data.open_atlas(latest(str(tiny)))
    assert first.con.execute("SELECT 1").fetchall() == [(1,)]
    counted: list[Path] = []
    opening = Atlas.__init__

    def opened(self: Atlas, path: Path, **options: str) -> None:
        counted.append(path)
        opening(self, path, **options)

    monkeypatch.setattr(Atlas, "__init__", opened)
    visit(tiny, "overview", of="ww.t3")
    assert not counted


@pytest.mark.thorough
def test_columns_of_other_types_are_compared_as_far_as_they_are_numbers() -> None:
    here = pl.DataFrame({"direction": ["read"], "token": ["a"], "rank": [1], "score": [0.5]})
    there = pl.DataFrame({"direction": ["read"], "token": ["b"], "rank": ["x"], "score": ["0.25"]})
    assert beside.differing_tokens(here, there).rows() == [("read", "the second", "b", None, 0.25), ("read", "the first", "a", 1, 0.5)]

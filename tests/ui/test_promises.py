"""What docs/pages.md promises of pages and has no other test: what stands on a page, what in its address, and the numbers that it names."""

import re
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from streamlit.testing.v1 import AppTest

from atlas.typed.execution import Result
from tests.atlas.retrieval.tiny_retrievals import write_tiny_retrievals
from tests.ui import screenshots
from tests.ui.conftest import Visit, htmls, tables, text_of
from tests.ui.test_kinds import ROOMS
from ui import overview, running
from ui.component import head, neuron
from ui.evidence import experiments, pictures
from ui.evidence.topics import TOPICS
from ui.map.room import MOST_POINTS
from ui.prediction import address, contributors, layer_detail, live, traces
from ui.tray import collecting, figures

DOC = (Path(__file__).parents[2] / "docs" / "pages.md").read_text(encoding="utf-8")

WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 8: "eight", 10: "ten", 20: "twenty", 50: "fifty"}


@pytest.mark.parametrize(
    "promise",
    [
        f"and {WORDS[len(overview.MEASURES)]} measures over the layers",
        f"{WORDS[neuron.FIRST]} texts of each tail",
        f"at most {pictures.MOST_EDGES} edges in the picture",
        f"of more than {collecting.MOST_TICKED}, all are added",
        f"A part of the map with more than {MOST_POINTS:,} points",
        f"kept while the tab is open, {figures.MOST} at most",
        f"the {WORDS[contributors.N_PARTS]} largest stand by themselves",
        f"its neurons among the {WORDS[layer_detail.ALL_NEURONS]} that move",
        f"the {WORDS[live.N_TOKENS]} likeliest tokens",
        f"at most {address.MOST_PROMPT} characters and {address.MOST_SWITCHES} switches",
        f"waits at most {WORDS[int(traces.PATIENCE / 60)]} minutes",
        f"keeps the last {WORDS[traces.MOST_KEPT]} runs",
        f"ended at {running.TIMEOUT:g} seconds or {running.MEMORY >> 30} GB of memory; at most {running.MAX_ROWS:,} rows and {running.MAX_BYTES >> 20} MB",
        f"{WORDS[running.AT_ONCE].title()} run at once on a server; others wait, and after {running.PATIENCE:g} seconds",
        f"{WORDS[running.RESULTS].title()} results are kept",
    ],
)
def test_a_number_of_the_document_is_that_of_the_code(promise: str) -> None:
    assert promise in " ".join(DOC.split())


def test_the_pictures_of_the_document_are_those_that_the_script_makes() -> None:
    assert sorted(re.findall(r"!\[\w+\]\(ui/(\w+)\.png\)", DOC)) == sorted(screenshots.VIEWS)


def test_every_panel_of_evidence_has_a_picture_or_rows() -> None:
    panels = [panel for topic in TOPICS.values() for panel in topic.panels]
    assert len(panels) > 20
    assert [panel.question for panel in panels if panel.picture is None and panel.rows == 0] == []


@pytest.mark.thorough
def test_behind_the_atlas_name_lie_its_model_and_two_pages(visit: Visit, tiny: Path) -> None:
    menu = next(html for html in htmls(visit(tiny, "map")) if 'class="atlas"' in html).partition("</details>")[0]
    assert "<summary><b>tiny.duckdb</b> · tiny @ r0</summary>" in menu
    assert re.findall(r'href="([^"?]+)[^"]*">([^<]+)<', menu) == [("/", "Overview"), ("/sql", "SQL")]


@pytest.mark.thorough
def test_the_overview_has_corpora_layers_and_runs(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "overview")
    assert [h.value for h in app.header] == ["Corpora", "Layers", "Runs"]
    assert len(app.get("vega_lite_chart")) == 10


@pytest.mark.thorough
def test_a_neuron_that_was_found_has_five_tokens_that_it_promotes(visit: Visit, nasty: Path) -> None:
    found = next(html for html in htmls(visit(nasty, "search", q="=1+1")) if html.startswith('<div class="previews"'))
    first = found.split('<div class="row"')[1]
    assert ">L0N0</a>" in first
    # of eight
    assert re.findall(r"<bdi>([^<]*)</bdi>", first.partition('class="text"')[0]) == ["=1+1", "␣&quot;q&quot;,", "→", "漢", "🙂"]


def test_what_the_box_found_goes_to_a_collection(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "search", q="sat")
    app.button(key="neurons_promoting-collect").click().run()
    assert not app.exception
    assert "neurons_promoting-collection" in [field.key for field in app.text_input]


@pytest.mark.thorough
def test_both_tails_of_a_neuron_have_one_scale(visit: Visit, tiny: Path) -> None:
    # of L0N1 the largest is 4 and the smallest −3: 0.05 + 0.95 · log10(1 + 9 · 3/4) = 0.895
    drawn = "".join(html for html in htmls(visit(tiny, "component", at="L0N1")) if html.startswith('<div class="trigger"'))
    assert "var(--positive) 100.0%" in drawn
    assert "var(--negative) 89.5%" in drawn and "var(--negative) 100.0%" not in drawn


def test_tabs_of_a_head_have_both_directions_its_distances_and_its_predictions(visit: Visit, tiny: Path) -> None:
    assert [h.value for h in visit(tiny, "component", at="L1H0", tab="circuits").header] == ["Reads from", "Read by"]
    assert len(visit(tiny, "component", at="L1H0", tab="distance").get("vega_lite_chart")) == 1
    (raised,) = tables(visit(tiny, "component", at="L1H0", tab="positions"))
    assert set(raised["position_id"]) <= {2, 8, 101} and len(raised) > 0
    assert head.TABS["numbers"] == "Numbers"


@pytest.mark.thorough
def test_similar_states_are_those_of_the_opened_layer_else_of_the_last(visit: Visit, tiny: Path) -> None:
    assert "By cosine of resid_post in layer 2." in text_of(visit(tiny, "prediction", position="8"))
    assert "By cosine of resid_post in layer 1." in text_of(visit(tiny, "prediction", position="8", open="L1"))


def test_neighbours_from_the_datastore_stand_where_a_retrieval_looked_for_them(visit: Visit, tiny: Path) -> None:
    assert "Neighbours in the datastore" not in [h.value for h in visit(tiny, "prediction", position="2").subheader]
    write_tiny_retrievals(tiny)
    app = visit(tiny, "prediction", position="2")
    assert "Neighbours in the datastore" in [h.value for h in app.subheader]
    # tests/atlas/questions/knn_neighbours.json
    assert "In 1 of the 1 nearest, the next token is the same as here" in text_of(app)


def test_the_last_experiment_that_is_finished_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.DataFrame({"experiment": [1, 2, 3, 4], "kind": ["tracing"] * 3 + ["knockout"], "status": ["finished", "finished", "running", "finished"]})
    monkeypatch.setattr(experiments.data, "ask", lambda *_, **__: SimpleNamespace(frame=rows))
    assert experiments.list_finished("tracing") == ["2", "1"]


def test_of_many_pairs_of_heads_the_first_thirty_are_drawn() -> None:
    pairs = pl.DataFrame([{"layer": 1, "head": i, "from_layer": 0, "from_head": i, "excess": 1.0 - i / 100} for i in range(40)])
    assert pictures.draw_edges(pairs).layer[0].data["head"].to_list() == list(range(30))


@pytest.mark.thorough
def test_a_full_tray_takes_no_more(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "component", at="L0N0", tab="numbers")
    assert not app.button(key="histogram-to-figure").disabled
    app.session_state["tray"] = [SimpleNamespace(id=str(i)) for i in range(50)]
    assert app.run().button(key="histogram-to-figure").disabled


def many() -> None:
    """The form of 201 rows, as a page."""
    from atlas.beside.collections.members import position
    from ui.tray import collecting

    collecting.form([position(i) for i in range(201)], "x")


def test_of_many_rows_all_are_added_without_a_tick_each(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATLAS_DB", str(tiny))
    app = AppTest.from_function(many, default_timeout=60).run()
    assert "All 201." in text_of(app) and not app.dataframe


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements are answered by these rows at once."""
    rows = pl.DataFrame({"layer": range(250), "n_saturations": range(250)})
    monkeypatch.setattr(running, "run", lambda *_, **__: Result(rows, False))


@pytest.mark.usefixtures("answered")
def test_a_statement_is_drawn_as_the_address_says(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "sql", chart="true", kind="line", x="layer", y="n_saturations")
    assert not app.error and len(app.get("vega_lite_chart")) == 1
    assert [app.selectbox(key=key).value for key in ("kind", "x", "y")] == ["line", "layer", "n_saturations"]


@pytest.mark.first_cases(3)
@pytest.mark.usefixtures("answered")
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"kind": "pie"}, "no kind pie; available: bar, line, point"),
        ({"x": "weight"}, "no x weight; available: layer, "),
        ({"y": "weight"}, "no y weight; available: layer, "),
        ({"chart": "maybe"}, "no chart maybe; it is true or false"),
    ],
)
def test_a_chart_that_there_is_not_is_said_and_no_other_is_drawn(visit: Visit, tiny: Path, query: dict[str, str], said: str) -> None:
    app = visit(tiny, "sql", **{"chart": "true", **query})
    assert said in text_of(app)
    assert not app.exception and not app.get("vega_lite_chart")


@pytest.mark.usefixtures("answered")
def test_what_is_looked_up_beside_a_statement_does_not_stand_in_the_address(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "sql", sql="FROM range(250)")
    next(b for b in app.button if b.label == "Run").click().run()
    app.selectbox(key="relation").set_value("trigger").run()
    app.selectbox(key="question").set_value("top_triggers").run()
    app.number_input(key="top_triggers-layer").set_value(2).run()
    assert not app.exception and "250 rows" in text_of(app)
    assert dict(app.query_params) == {"sql": "FROM range(250)"}


@pytest.mark.thorough
def test_looking_at_every_room_writes_nothing(visit: Visit, tiny: Path) -> None:
    def lying() -> dict[str, tuple[int, int]]:
        return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in tiny.parent.iterdir()}

    before, content = lying(), tiny.read_bytes()
    for page, query in ROOMS.values():
        assert not visit(tiny, page, **query).exception
    assert lying() == before and tiny.read_bytes() == content

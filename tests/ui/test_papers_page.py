"""The papers page: every item of both papers, as the tiny atlas has it, and what is said of those that wait for something."""

import json
import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from atlas.beside.experiments import EXPERIMENTS
from atlas.beside.retrieval import RETRIEVALS
from atlas.papers import captions
from atlas.papers.catalogue import PAPERS
from schema.open import store
from tests.atlas.experiments.tiny_experiments import write_tiny_experiments
from tests.atlas.retrieval.tiny_retrievals import write_tiny_retrievals
from tests.ui.conftest import Visit, tables, text_of
from ui import blocks

ITEMS = {item.name: paper.name for paper in PAPERS.values() for item in paper.items}
ANNOTATED = {"geva2021_patterns", "geva2021_fig2", "geva2022_concepts", "geva2022_fig2"}
"""They wait for annotations."""


@pytest.fixture(scope="module")
def with_all_beside(tiny_original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With its experiments and retrievals, which some items show."""
    path = Path(shutil.copy(tiny_original, tmp_path_factory.mktemp("beside")))
    write_tiny_experiments(path)
    write_tiny_retrievals(path)
    return path


@pytest.fixture
def tiny(with_all_beside: Path, tmp_path: Path) -> Path:
    for kind in (EXPERIMENTS, RETRIEVALS):
        shutil.copy(kind.path(with_all_beside), tmp_path)
    return Path(shutil.copy(with_all_beside, tmp_path))


def shown(visit: Visit, path: Path, name: str, **query: str) -> AppTest:
    """The page at one item. No score of the tiny atlas is above 6."""
    paper = ITEMS[name]
    return visit(path, "evidence", show="papers", paper=paper, item=name.removeprefix(f"{paper}_"), threshold="1.5", **query)


@pytest.mark.thorough
def test_a_table_of_more_rows_than_are_printed_shows_those_that_are(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tables(shown(visit, tiny, "geva2021_top_values"))[0]["neuron"]
    monkeypatch.setattr(captions, "ROWS", 2)
    app = shown(visit, tiny, "geva2021_top_values")
    assert not app.exception and len(whole) > 2
    assert tables(app)[0]["neuron"].to_list() == whole.to_list()[:2]


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("name", ITEMS)
def test_every_item_is_shown_as_it_is_printed(visit: Visit, tiny: Path, name: str) -> None:
    app = shown(visit, tiny, name)
    item = next(item for item in PAPERS[ITEMS[name]].items if item.name == name)
    assert not app.exception and not app.error, text_of(app)
    assert item.heading in [header.value for header in app.header]
    assert f"{item.place} · {name}" in text_of(app)
    if name in ANNOTATED:
        assert "Not here yet: no annotated" in text_of(app)
        assert not tables(app)
        return
    # rows that lead somewhere begin with its name, which says these numbers
    named = {"layer", "neuron", "head", "from_layer", "from_head", "position"}
    assert [c for c in tables(app)[0].columns if c not in named] == [c for c in item.columns.values() if c not in named]
    assert len(app.get("vega_lite_chart")) == (item.chart is not None)
    assert "Model: tiny @ r0, 3 layers × 4 neurons." in text_of(app)
    assert f"Left out: {item.exclusions}." in text_of(app)
    if item.headline:
        assert f"{PAPERS[ITEMS[name]].authors} report, for {item.model or PAPERS[ITEMS[name]].model}: {item.headline}" in text_of(app)


@pytest.mark.thorough
def test_the_numbers_are_those_of_the_question(visit: Visit, tiny: Path) -> None:
    # tests/atlas/questions/geva2021_fig11.json has the shares
    app = shown(visit, tiny, "geva2021_fig11")
    assert "residual and agreement together: 100.0% at layer 0, 0.0% at layer 2" in text_of(app)
    assert "FROM geva2021_fig11(corpus := 0)" in text_of(app)
    of_one = shown(visit, tiny, "geva2021_fig11", corpus="1")
    assert "FROM geva2021_fig11(corpus := 1)" in text_of(of_one)
    assert "n: 1 traced position" in text_of(of_one)


def test_a_chart_is_drawn_in_print_dress(visit: Visit, tiny: Path) -> None:
    spec = json.loads(shown(visit, tiny, "geva2022_table4").get("vega_lite_chart")[0].proto.spec)
    assert (spec["width"], spec["background"]) == (486, "white")
    # the browser's chart wants a number for each side
    assert spec["padding"] == {"left": 3, "right": 3, "top": 3, "bottom": 3}


def test_the_list_names_every_item_and_says_which_are_not_here(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "evidence", show="papers")
    radio = app.radio(key="item")
    assert radio.value == "table1"
    assert len(radio.options) == len(PAPERS["geva2021"].items)
    captions = list(radio.proto.captions)
    assert captions[0] == "Table 1: Example keys and the texts that trigger them most"
    assert [c for c in captions if c.endswith("(not here)")] == [captions[1], captions[2]]


@pytest.mark.thorough
def test_another_paper_begins_with_its_own_first_item(visit: Visit, tiny: Path) -> None:
    app = shown(visit, tiny, "geva2021_fig11")
    app.button_group(key="paper").set_value("geva2022").run()
    assert not app.exception and not app.error, text_of(app)
    assert app.radio(key="item").value == "concepts"
    app.radio(key="item").set_value("table4").run()
    assert "Table 4 · geva2022_table4" in text_of(app)


@pytest.mark.thorough
def test_a_threshold_is_the_readers(visit: Visit, tiny: Path) -> None:
    # scores of layer 1: -2, 1, -4, 0, 0, 0
    app = shown(visit, tiny, "geva2022_extreme")
    assert "FROM geva2022_extreme(threshold := 1.5::DOUBLE, corpus := 0)" in text_of(app)
    assert tables(app)[0]["extreme"].to_list()[1] == 2
    app.number_input(key="threshold").set_value(3.0).run()
    assert tables(app)[0]["extreme"].to_list()[1] == 1
    app.number_input(key="threshold").set_value(None).run()
    assert "FROM geva2022_extreme(corpus := 0)" in text_of(app)


@pytest.mark.thorough
def test_what_an_item_waits_for_is_said_with_what_to_run(visit: Visit, tiny: Path) -> None:
    app = shown(visit, tiny, "geva2021_patterns")
    assert "Not here yet: no annotated keys of corpus 0." in text_of(app)
    assert "atlas annotate sheet --db tiny.duckdb --subject keys -o keys.csv\natlas annotate load keys.csv --db tiny.duckdb --annotator YOU" in text_of(app)
    con = store.open_writer(tiny)
    con.execute("DELETE FROM run WHERE kind = 'trace'")
    con.close()
    untraced = shown(visit, tiny, "geva2021_fig11")
    assert "Not here yet: no trace of corpus 0." in text_of(untraced)
    assert "atlas ingest tiny.duckdb --corpus tales --context 5 --trace 4000" in text_of(untraced)


@pytest.mark.thorough
def test_the_files_are_those_that_atlas_paper_writes(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[blocks.Files] = []
    monkeypatch.setattr(blocks, "offer", lambda files, key: offered.append(files))
    shown(visit, tiny, "geva2021_fig11")
    (files,) = offered
    assert {name for name, _ in files.values()} == {f"geva2021_fig11.{s}" for s in ("pdf", "svg", "png", "tex", "md", "csv", "parquet", "provenance.json")}
    content = {name.partition(".")[2]: make() for name, make in files.values()}
    assert content["pdf"].startswith(b"%PDF") and content["png"].startswith(b"\x89PNG") and content["svg"].startswith(b"<svg")
    assert content["csv"].startswith(b"layer,") and content["parquet"].startswith(b"PAR1")
    assert b"\\label{tab:geva2021_fig11}" in content["tex"] and b"% item: geva2021_fig11" in content["tex"]
    provenance = json.loads(content["provenance.json"])
    assert provenance["atlas"] == "tiny.duckdb" and provenance["question"] == "geva2021_fig11"
    assert {run["kind"] for run in provenance["runs"]} == {"weights", "trace"}


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"paper": "geva2019"}, f"no paper geva2019; available: {', '.join(PAPERS)}"),
        ({"paper": "geva2022", "item": "fig11"}, "no item fig11; available: concepts"),
        ({"corpus": "7"}, "no corpus 7; available: 0: tales (all)"),
        ({"paper": "geva2022", "item": "extreme", "threshold": "high"}, "the address asks for threshold high, which is not a number"),
        ({"paper": "geva2022", "item": "extreme", "threshold": "nan"}, "the address asks for threshold nan, which is not a number"),
        ({"paper": "geva2022", "item": "extreme", "threshold": "-1"}, "the address asks for threshold -1, which is below 0"),
    ],
)
def test_an_address_that_asks_for_what_there_is_not_is_said(visit: Visit, tiny: Path, query: dict[str, str], said: str) -> None:
    app = visit(tiny, "evidence", show="papers", **query)
    assert said in text_of(app)
    assert not app.exception and not tables(app)

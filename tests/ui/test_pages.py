"""Every page of every kind of atlas: what it shows, what it says where there is nothing, and that a link restores it."""

import shutil
from pathlib import Path

import pytest

from atlas.api import Atlas
from schema import SCHEMA_VERSION
from schema.open import store
from tests.ui.conftest import Visit, tables, text_of
from ui import data

PAGES = sorted(path.stem for path in (Path(__file__).parents[2] / "ui" / "app_pages").glob("*.py"))


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_tiny_atlas(visit: Visit, tiny: Path, page: str) -> None:
    app = visit(tiny, page)
    assert not app.exception
    assert not app.error
    assert len(app.title) == 1
    assert "tiny.duckdb, published less than a minute ago" in text_of(app)


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_an_empty_atlas_says_what_to_run(visit: Visit, empty: Path, page: str) -> None:
    app = visit(empty, page)
    assert not app.exception
    assert "empty" in text_of(app) or "atlas ingest" in text_of(app)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_another_schema_version_says_so(visit: Visit, older: Path, page: str) -> None:
    app = visit(older, page)
    assert not app.exception
    assert f"has schema version 1; this is activation-atlas for version {SCHEMA_VERSION}" in text_of(app)


@pytest.mark.thorough
def test_the_overview_counts_what_was_read(visit: Visit, tiny: Path) -> None:
    facts = {metric.label: metric.value for metric in visit(tiny).metric}
    assert facts["Layers"] == "3"
    assert facts["Neurons a layer"] == "4"
    assert facts["Positions swept"] == "14"
    assert facts["Positions traced"] == "3"


@pytest.mark.thorough
def test_a_name_of_an_activation_is_no_markdown(visit: Visit, tiny: Path) -> None:
    con = store.open_writer(tiny)
    con.execute("UPDATE model SET activation = '![x](https://example.org/x.png)gelu_new'")
    con.close()
    facts = {metric.label: metric.value for metric in visit(tiny).metric}
    assert facts["FFN"] == "??x??https???example?org?x?png?gelu_new, gated"


@pytest.mark.thorough
def test_a_link_restores_the_neuron(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "component", at="L1N2", context="narrow")
    assert [t.value for t in app.title] == ["L1N2"]
    assert "FROM trigger_contexts(1, 2, n := 20, width := 5, per_sequence := 1)" in text_of(app)


@pytest.mark.parametrize(("at", "said"), [("L3N0", "no layer 3: this model has layers 0 to 2"), ("L0Nx", "'L0Nx' is not an address"), ("L0N4", "no neuron 4")])
def test_an_address_that_does_not_exist_is_said_and_kept_and_no_other_is_shown(visit: Visit, tiny: Path, at: str, said: str) -> None:
    app = visit(tiny, "component", at=at)
    assert said in text_of(app)
    assert [t.value for t in app.title] == ["No such component"] and not tables(app)
    assert app.query_params["at"] == at


@pytest.mark.thorough
def test_a_width_of_the_text_that_there_is_not_is_said(visit: Visit, tiny: Path) -> None:
    assert "no context huge; available: narrow, snippet, wide" in text_of(visit(tiny, "component", at="L0N0", context="huge"))


@pytest.mark.thorough
def test_a_link_of_another_model_shows_nothing_of_this_one(visit: Visit, tiny: Path) -> None:
    assert [t.value for t in visit(tiny, "component", at="L1N2", of="ww").title] == ["L1N2"]
    app = visit(tiny, "component", at="L1N2", of="217a624a")
    assert [t.value for t in app.title] == ["Another model"] and not tables(app)
    assert "this link belongs to a model with the weights 217a624a…, but tiny.duckdb is of tiny @ r0 (ww…)" in text_of(app)


@pytest.mark.thorough
def test_a_newer_snapshot_is_offered_and_shown_when_asked_for(visit: Visit, tiny: Path) -> None:
    app = visit(tiny)
    draft = tiny.with_name("draft.duckdb")
    draft.write_bytes(tiny.read_bytes())
    con = store.open_writer(draft)
    con.execute("UPDATE model SET name = 'renewed'")
    con.close()
    draft.replace(tiny)
    app.run()
    assert "renewed" not in text_of(app)
    offer = next(b for b in app.button if b.label.startswith("Show the snapshot published"))
    offer.click().run()
    assert "renewed" in text_of(app)
    assert not [b for b in app.button if b.label.startswith("Show the snapshot")]


def test_a_visit_that_begins_while_a_snapshot_is_published_shows_that(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [Path(shutil.copy(tiny, tiny.with_name(f"{i}.duckdb"))) for i in range(2)]
    open_atlas = data.Atlas

    def opened_late(path: str) -> Atlas:
        a = open_atlas(path)
        if waiting:
            waiting.pop().replace(path)
        return a

    monkeypatch.setattr(data, "Atlas", opened_late)
    app = visit(tiny)
    assert waiting == []
    assert not app.error
    assert len(app.title) == 1
    assert not [b for b in app.button if b.label.startswith("Show the snapshot")]

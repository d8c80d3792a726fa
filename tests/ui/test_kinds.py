"""Every room of every kind of atlas that is no whole one of this release: it opens, or says what is missing and with what it comes."""

import shutil
from pathlib import Path

import duckdb
import pytest
from streamlit.testing.v1 import AppTest

from schema.open import store
from schema.open.lake import Lake
from schema.table_facts import facts
from tests.lake.pushed import push
from tests.lake.servers import Servers
from tests.schema.test_older import unpacked
from tests.ui.conftest import Visit, tables, text_of

ROOMS: dict[str, tuple[str, dict[str, str]]] = {
    "Overview": ("overview", {}),
    "Search": ("search", {"q": "sat"}),
    "neuron": ("component", {"at": "L0N0"}),
    "head": ("component", {"at": "L1H0"}),
    "Predictions": ("prediction", {}),
    "Prediction": ("prediction", {"position": "8", "open": "L1", "head": "L1H0"}),
    "Map": ("map", {}),
    "Evidence": ("evidence", {}),
    "SQL": ("sql", {}),
}
"""Room → its page, and what its address asks for."""

every_room = pytest.mark.parametrize("room", ROOMS)


def entered(visit: Visit, path: Path, room: str) -> AppTest:
    page, query = ROOMS[room]
    app = visit(path, page, **query)
    assert not app.exception
    return app


def with_passes(path: Path, *kept: str) -> Path:
    """Without the rows of all other passes; and without text where none read it."""
    con = store.open_writer(path)
    for table, of in facts().filled_by.items():
        if of not in ("", *kept):
            con.execute(f"DELETE FROM {table}")
    con.execute("DELETE FROM run WHERE NOT list_contains(?, kind)", [list(kept)])
    if kept == ("weights",):
        for table in ("position", "sequence", "document", "corpus"):
            con.execute(f"DELETE FROM {table}")
    con.close()
    return path


PARTLY = {
    ("weights",): {
        "Search": "No text has been swept yet",
        "neuron": "No text has been swept, so what triggers this neuron is not known",
        "head": "Not known: atlas ingest tiny.duckdb --corpus sotu --head-statistics --head-probe",
        "Predictions": "atlas ingest tiny.duckdb --corpus sotu --trace 300",
        "Prediction": "this atlas has no traced positions; an ingest with --trace 300 makes some",
        "Map": "atlas ingest tiny.duckdb --corpus sotu --map",
        "Evidence": "Not here yet: no trace.",
        "Overview": "No corpus yet: atlas ingest with --corpus reads one.",
    },
    ("weights", "trace"): {
        "Search": "No text has been swept yet",
        "neuron": "No text has been swept, so what triggers this neuron is not known",
        "Predictions": "3 positions",
        "Prediction": "This prediction has not been taken apart.",
        "Evidence": "the very token that was just read",
    },
}
"""Passes → room → what it says."""


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(("kept", "room"), [(kept, room) for kept, said in PARTLY.items() for room in said])
def test_a_room_of_an_atlas_with_some_passes_says_what_brings_the_others(visit: Visit, tiny: Path, kept: tuple[str, ...], room: str) -> None:
    app = entered(visit, with_passes(tiny, *kept), room)
    assert PARTLY[kept][room] in text_of(app)


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by an earlier release of the same schema version."""
    return unpacked(tmp_path_factory.mktemp("former"))


@pytest.mark.first_cases(1)
@every_room
def test_a_room_of_an_atlas_of_an_earlier_release_opens(visit: Visit, former: Path, room: str) -> None:
    app = entered(visit, former, room)
    # that atlas has traced other positions than the tiny one, and knows nothing of heads
    assert ("position 8 is not traced" in text_of(app)) if room == "Prediction" else not app.error, text_of(app)
    if room == "head":
        assert "Nothing is known of it yet." in text_of(app)
        assert "--head-statistics" in text_of(app)


@pytest.mark.first_cases(1)
@every_room
def test_a_room_of_an_atlas_of_hostile_text_shows_it_as_text(visit: Visit, nasty: Path, room: str) -> None:
    con = store.open_writer(nasty)
    con.execute("UPDATE token SET text = '</bdi><script>alert(1)</script>[x](http://example.org) $x$' WHERE token_id IN (2, 5)")
    con.close()
    app = entered(visit, nasty, room)
    assert not app.error, text_of(app)
    shown = [str(part.value) for kind in ("markdown", "title", "header", "subheader", "caption") for part in getattr(app, kind)]
    assert not [text for text in shown if "alert(1)" in text or "example.org" in text]
    assert not [html for html in map(str, (part.proto.body for part in app.get("html"))) if "<script>alert" in html]


@pytest.mark.first_cases(0)
@every_room
def test_a_room_that_is_open_while_the_atlas_grows_stays_as_it_is_until_the_newer_is_asked_for(visit: Visit, tiny: Path, room: str) -> None:
    app = entered(visit, tiny, room)
    before = text_of(app)
    grown = Path(shutil.copy(tiny, tiny.with_name("grown.duckdb")))
    with duckdb.connect(grown) as con:
        con.execute("UPDATE model SET name = 'grown'")
    grown.replace(tiny)
    app.run()
    assert not app.exception and not app.error, text_of(app)
    # but for Random, what is said is the same
    assert [line for line in text_of(app).splitlines() if "Random" not in line] == [line for line in before.splitlines() if "Random" not in line]
    next(b for b in app.button if b.label.startswith("Show the snapshot published")).click().run()
    assert not app.exception and not app.error, text_of(app)
    assert "grown @ r0" in text_of(app)


@pytest.fixture(scope="module")
def lake(servers: Servers, tiny_original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("lake") / "tiny.lake"
    return push(tiny_original, target, Lake(servers.catalogue("pages"), servers.data("pages")))


@pytest.mark.ci_cases(3)
@pytest.mark.thorough
@every_room
def test_a_room_of_a_lake_shows_what_that_of_its_file_does(visit: Visit, lake: Path, tiny: Path, room: str) -> None:
    of_file = entered(visit, tiny, room)
    app = entered(visit, lake, room)
    assert not app.error, text_of(app)
    # how large a lake is and what lies beside its tables is its own: of the SQL page the rows of the statement are compared
    shown, of_the_file = ([table.to_dict() for table in tables(found)][-1 if room == "SQL" else None :] for found in (app, of_file))
    assert shown == of_the_file or room == "Overview"
    assert [h.value for h in app.header] == [h.value for h in of_file.header]

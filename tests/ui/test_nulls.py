"""An atlas that somebody sent may lack values where every ingest writes one: pages leave a cell blank or say which are missing, and show the rest."""

from pathlib import Path

import polars as pl
import pytest

from atlas.typed.nulls import without_value
from schema.errors import AtlasError
from schema.open import store
from tests.ui.conftest import Visit, text_of
from ui import blocks
from ui.component import front
from ui.evidence import measurement_sentences, room
from ui.map.labels import names


def planted(path: Path, column: str, where: str = "TRUE") -> Path:
    """Without values in 'table.column'."""
    table, name = column.split(".")
    con = store.open_writer(path)
    con.execute(f"ALTER TABLE {table} ALTER {name} DROP NOT NULL")
    con.execute(f"UPDATE {table} SET {name} = NULL WHERE {where}")
    con.close()
    return path


@pytest.mark.parametrize(
    ("page", "query", "kept"),
    [
        ("map", {}, "12 values in 12 cells."),
        ("component", {"at": "L2H0"}, "Direction 1 reads (80% of its weights) against"),
        ("search", {"by": "ranges"}, "24 found"),
    ],
)
def test_a_token_without_text_is_blank(visit: Visit, tiny: Path, page: str, query: dict[str, str], kept: str) -> None:
    app = visit(planted(tiny, "token.text"), page, **query)
    assert not app.exception and not app.error, text_of(app)
    assert kept in text_of(app)


def test_what_a_neuron_does_is_said_without_the_texts_of_its_tokens() -> None:
    card = {"n_positions": 0, "value_top_token": None, "value_max_prob": 0.5}
    assert front.neuron_note(card, None, []) == 'Its value makes <span class="chips" style="display:inline"><bdi></bdi></span> most probable (0.5).'


def test_a_name_on_the_map_is_made_of_the_tokens_that_have_text() -> None:
    assert names([None, " nation", None]) == ["nation"]
    assert names([None]) == []


def test_a_probe_whose_numbers_are_missing_is_not_the_best() -> None:
    known = {"site": "resid_post", "layer": 1, "accuracy": 0.75, "selectivity": 0.5, "type_accuracy": 0.5, "untrained_accuracy": 0.25, "n_test": 8}
    lost = {**dict.fromkeys(known), "site": "resid_post", "layer": 0}
    assert measurement_sentences.describe_probes(pl.DataFrame([lost, known])).startswith("Best at resid_post of layer 1: 75.0% of 8 words;")
    assert measurement_sentences.describe_probes(pl.DataFrame([lost, lost], schema=pl.DataFrame([known]).schema)).startswith(
        "Best at resid_post of layer 0: – of – words;"
    )


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("column", "page", "query", "kept"),
    [
        ("model.n_layers", "component", {"at": "L0N0"}, ""),
        ("trigger.coefficient", "component", {"at": "L0N0"}, ""),
        ("attention.final_logit", "prediction", {"position": "8", "head": "L1H0"}, "The logit of . is 4.375"),
        ("token.text", "component", {"at": "L0N0"}, "its coefficient exceeds 0.3 in size at 86% of positions"),
    ],
)
def test_a_page_that_stumbles_says_which_values_are_missing_and_shows_its_other_parts(
    visit: Visit, tiny: Path, column: str, page: str, query: dict[str, str], kept: str
) -> None:
    app = visit(planted(tiny, column), page, **query)
    assert not app.exception
    assert f"tiny.duckdb is not as an ingest makes it: there are rows without a value in {column}" in text_of(app)
    assert kept in text_of(app)


def test_a_column_that_is_called_otherwise_in_capitals_is_found(tiny: Path) -> None:
    planted(tiny, "map_point.x")
    con = store.open_writer(tiny)
    con.execute("ALTER TABLE map_point RENAME x TO X")
    assert without_value(con) == ["map_point.x"]
    con.close()


def test_an_atlas_that_cannot_be_looked_into_says_so_where_a_page_stumbles(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_: object) -> list[str]:
        raise AtlasError("Conversion Error: 'abc' is no number")

    monkeypatch.setattr(blocks, "without_value", unreadable)
    monkeypatch.setattr(room, "lack", lambda *_: [][0])
    app = visit(tiny, "evidence")
    assert not app.exception and "'abc' is no number" in text_of(app)


def test_a_fault_of_the_page_itself_is_not_laid_to_the_atlas(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "lack", lambda *_: [][0])
    assert [error.message for error in visit(tiny, "evidence").exception] == ["list index out of range"]

"""Every rule of retrievals holds of the tiny ones, and is broken by rows that break it."""

from contextlib import closing
from pathlib import Path

import pytest

from atlas.retrieval.kind import RETRIEVALS
from atlas.retrieval.rules import findings
from schema.open.change import changing
from schema.open.kinds import read_folder
from schema.open.opening import open_with_beside
from tests.atlas.retrieval.tiny_retrievals import write_tiny_retrievals
from tests.atlas.tiny_atlas import write_tiny_atlas

BREAKS = {
    "neighbour_order": "UPDATE retrievals.knn_neighbour SET distance = 0.5 WHERE position_id = 100 AND rank = 2",
    "queries_predicted": "INSERT INTO retrievals.knn_prediction SELECT * REPLACE (3 AS k) FROM retrievals.knn_prediction WHERE position_id = 8",
    "choice": "UPDATE retrievals.retrieval SET weight = 0.4",
    "texts_exist": "DELETE FROM retrievals.token_text WHERE token_id = 9",
}


def broken(path: Path) -> list[str]:
    with closing(open_with_beside(path)) as con:
        return [finding.audit.name for finding in findings(con) if finding.n_rows]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = write_tiny_atlas(tmp_path / "tiny.duckdb")
    write_tiny_retrievals(made)
    return made


def test_every_file_of_audits_is_broken_here(path: Path) -> None:
    assert BREAKS.keys() == read_folder(RETRIEVALS.folder / "audits").keys()
    assert broken(path) == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", BREAKS)
def test_a_rule_finds_what_breaks_it(path: Path, name: str) -> None:
    with changing(RETRIEVALS, path) as con:
        con.execute(BREAKS[name])
    assert broken(path) == [f"retrievals: {name}"]

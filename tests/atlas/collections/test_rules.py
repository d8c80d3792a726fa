"""Every rule of collections holds of the tiny ones, and is broken by rows that break it."""

from contextlib import closing
from pathlib import Path

import pytest

from atlas.collections.kind import COLLECTIONS
from atlas.collections.rules import findings
from schema.open.change import changing
from schema.open.kinds import read_folder
from schema.open.opening import open_with_beside
from tests.atlas.collections.tiny_collections import write_tiny_collections
from tests.atlas.tiny_atlas import write_tiny_atlas

BREAKS = {
    "members_are_one_thing": "UPDATE collections.collection_member SET token_id = 2 WHERE number = 0",
    "members_exist": "UPDATE collections.collection_member SET neuron = 4 WHERE number = 0",
    "names_bounded": "UPDATE collections.collection SET name = 'CATS' WHERE collection_id = 3",
}


def broken(path: Path) -> list[str]:
    with closing(open_with_beside(path)) as con:
        return [finding.audit.name for finding in findings(con) if finding.n_rows]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = write_tiny_atlas(tmp_path / "tiny.duckdb")
    write_tiny_collections(made)
    return made


@pytest.mark.thorough
def test_every_file_of_audits_is_broken_here(path: Path) -> None:
    assert BREAKS.keys() == read_folder(COLLECTIONS.folder / "audits").keys()
    assert broken(path) == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", BREAKS)
def test_a_rule_finds_what_breaks_it(path: Path, name: str) -> None:
    with changing(COLLECTIONS, path) as con:
        con.execute(BREAKS[name])
    assert broken(path) == [f"collections: {name}"]


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("name", ["a'b", " a", "a" * 61, "a\tb", "-a", ""])
def test_a_name_that_could_not_be_given_breaks_the_rule(path: Path, name: str) -> None:
    with changing(COLLECTIONS, path) as con:
        con.execute("UPDATE collections.collection SET name = ? WHERE collection_id = 3", [name])
    assert broken(path) == ["collections: names_bounded"]


@pytest.mark.thorough
def test_members_of_another_model_are_not_held_against_this_one(path: Path) -> None:
    with changing(COLLECTIONS, path) as con:
        con.execute("UPDATE collections.collection_member SET neuron = 4, weights_sha256 = 'other' WHERE number = 0")
    assert broken(path) == []

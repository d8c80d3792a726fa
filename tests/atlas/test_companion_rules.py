"""Every rule of the files beside an atlas holds of the tiny ones, and is broken by rows that break it."""

import re
import shutil
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.collections import COLLECTIONS
from atlas.beside.retrieval import RETRIEVALS
from atlas.cli.main import cli
from schema import terms
from schema.audits import companion_metadata
from schema.errors import AtlasError
from schema.interventions.intervention import STRENGTHS
from schema.interventions.sites import OPS
from schema.open.change import change_companion
from schema.open.kinds import Companion, creation_sql, kinds, read_folder, read_headers
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.collections.tiny_collections import write_tiny_collections
from tests.atlas.companions import broken
from tests.atlas.retrieval.tiny_retrievals import write_tiny_retrievals
from tests.atlas.tiny_atlas import write_tiny_atlas

BREAKS = {
    ANNOTATIONS: {
        "items_exist": "UPDATE annotations.annotation SET item = 4 WHERE annotation_id = 7",
        "items_shown": "DELETE FROM annotations.annotation_item WHERE annotation_id = 1 AND rank = 4",
        "matches_shown": "INSERT INTO annotations.pattern_match VALUES (0, 6)",
    },
    COLLECTIONS: {
        "members_are_one_thing": "UPDATE collections.collection_member SET token_id = 2 WHERE number = 0",
        "members_exist": "UPDATE collections.collection_member SET neuron = 4 WHERE number = 0",
        "names_bounded": "UPDATE collections.collection SET name = 'CATS' WHERE collection_id = 3",
    },
    RETRIEVALS: {
        "neighbour_order": "UPDATE retrievals.knn_neighbour SET distance = 0.5 WHERE position_id = 100 AND rank = 2",
        "queries_predicted": "INSERT INTO retrievals.knn_prediction SELECT * REPLACE (3 AS k) FROM retrievals.knn_prediction WHERE position_id = 8",
        "choice": "UPDATE retrievals.retrieval SET weight = 0.4",
        "texts_exist": "DELETE FROM retrievals.token_text WHERE token_id = 9",
    },
}
CASES = [pytest.param(kind, name, id=f"{kind.name}: {name}") for kind, breaks in BREAKS.items() for name in breaks]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_tiny_atlas(tmp_path_factory.mktemp("companions") / "tiny.duckdb")
    for write in (write_tiny_annotations, write_tiny_collections, write_tiny_retrievals):
        write(path)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made.parent, tmp_path / "copied") / made.name


def test_every_file_of_audits_is_broken_here(made: Path) -> None:
    for kind, breaks in BREAKS.items():
        assert breaks.keys() == read_folder(kind.folder / "audits").keys()
        assert broken(made, kind) == []


WORDS = {
    ("annotation", "subject"): terms.SUBJECTS,
    ("collection_member", "kind"): terms.MEMBER_KINDS,
    ("prompt_token", "role"): terms.TOKEN_ROLES,
    ("generation", "decoding"): terms.DECODINGS,
    ("experiment", "status"): terms.RUN_STATUSES,
    ("effect", "sources"): terms.BLOCKED_SOURCES,
    ("attribution", "score"): terms.ATTRIBUTION_SCORES,
    ("arm_change", "site"): tuple(OPS),
    ("arm_change", "op"): tuple(sorted({op for ops in OPS.values() for op in ops})),
    ("arm_change", "strength_kind"): STRENGTHS,
}


def test_words_that_python_knows_too_are_those_that_a_column_may_hold() -> None:
    found = {}
    for kind in kinds():
        for table in re.split(r"^CREATE TABLE ", kind.tables.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            for column, words in re.findall(r"CHECK \((\w+) IN \((.*)\)\)", table):
                found[table.split()[0].partition(".")[2], column] = tuple(re.findall(r"'(\w+)'", words))
    assert {place: found[place] for place in WORDS} == WORDS


def test_headers_name_columns_of_their_tables_and_describe_every_one() -> None:
    for kind in kinds():
        for name, header in read_headers(kind.tables.read_text(encoding="utf-8")).items():
            columns = {column.strip('"') for column in header.columns}
            table = companion_metadata(kind).tables[name]
            assert columns == set(table.columns.keys()) and header.comment, name
            assert {*(header.grain or ()), *header.references, *header.bounds} <= columns and header.grain is not None, name


SAID = """
-- What people noted,
-- and when.
-- grain: a
-- bounds: b in [0, 1]; a >= 0
CREATE TABLE notes.note (
    -- The note,
    -- in two lines.
    a INTEGER NOT NULL,
    b VARCHAR,
    -- it is small
    CHECK (a < 9)
) -- the end
"""


def test_comments_of_another_distribution_are_comments(tmp_path: Path) -> None:
    (tmp_path / "tables.sql").write_text(SAID)
    header = read_headers(SAID)["notes.note"]
    assert (header.comment, header.columns, header.grain) == ("What people noted, and when.", {"a": "The note, in two lines."}, ("a",))
    with closing(duckdb.connect()) as con:
        con.execute("ATTACH ':memory:' AS notes")
        con.execute(creation_sql(Companion("notes", 1, "note", tmp_path / "tables.sql", tmp_path, "", "", "")))
        assert con.execute("SELECT comment FROM duckdb_columns() WHERE table_name = 'note' AND column_name = 'a'").fetchall() == [("The note, in two lines.",)]


@pytest.mark.parametrize("wrong", ["bounds: b in [0,1]", "bounds: a > 0", "references: a of t.a"])
def test_a_fact_that_is_written_otherwise_is_said(wrong: str) -> None:
    with pytest.raises(AtlasError, match=r"the header of the table notes\.note has"):
        read_headers(SAID.replace("bounds: b in [0, 1]; a >= 0", wrong))


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_rule_finds_what_breaks_it(path: Path, kind: Companion, name: str) -> None:
    with change_companion(kind, path) as con:
        con.execute(BREAKS[kind][name])
    assert broken(path, kind) == [f"{kind.name}: {name}"]


def test_a_key_shows_one_text_a_sequence_so_that_its_ranks_have_gaps(path: Path) -> None:
    with change_companion(ANNOTATIONS, path) as con:
        con.execute("UPDATE annotations.annotation_item SET rank = 9 WHERE annotation_id = 1 AND rank = 4")
    assert broken(path, ANNOTATIONS) == []
    with change_companion(ANNOTATIONS, path) as con:
        con.execute("UPDATE annotations.annotation_item SET rank = 9 WHERE annotation_id = 9 AND rank = 5")
    assert broken(path, ANNOTATIONS) == ["annotations: items_shown"]


@pytest.mark.thorough
def test_verify_holds_annotations_to_the_model(path: Path) -> None:
    with change_companion(ANNOTATIONS, path) as con:
        con.execute("UPDATE annotations.annotation SET layer = 77 WHERE annotation_id = 0")
    said = CliRunner().invoke(cli, ["verify", str(path), "--quiet"])
    assert said.exit_code == 1
    assert "BROKEN  annotations.annotation: range: layers, neurons and heads are those of the model" in said.output


@pytest.mark.thorough
def test_where_rows_come_twice_audits_that_join_them_are_named_and_not_run(path: Path) -> None:
    with change_companion(RETRIEVALS, path) as con:
        con.execute("INSERT INTO retrievals.knn_query FROM retrievals.knn_query")
    said = CliRunner().invoke(cli, ["verify", str(path), "--quiet"])
    assert said.exit_code == 1 and "BROKEN  retrievals.knn_query: grain" in said.output
    assert "NOT CHECKED  retrievals: choice: a table has rows twice, named above" in said.output


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("name", ["a'b", " a", "a" * 61, "a\tb", "-a", ""])
def test_a_name_that_could_not_be_given_breaks_the_rule(path: Path, name: str) -> None:
    with change_companion(COLLECTIONS, path) as con:
        con.execute("UPDATE collections.collection SET name = ? WHERE collection_id = 3", [name])
    assert broken(path, COLLECTIONS) == ["collections: names_bounded"]


@pytest.mark.thorough
def test_members_of_another_model_are_not_held_against_this_one(path: Path) -> None:
    with change_companion(COLLECTIONS, path) as con:
        con.execute("UPDATE collections.collection_member SET neuron = 4, weights_sha256 = 'other' WHERE number = 0")
    assert broken(path, COLLECTIONS) == []

"""Rows that a stranger put into an atlas, or into a file beside it: what is saved afterwards is saved, says what the atlas says, and takes no longer."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

import atlas
from atlas import AtlasError
from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.annotations.adding import add
from atlas.beside.annotations.subjects import Address
from atlas.beside.collections import COLLECTIONS, keeping, members
from atlas.beside.experiments import EXPERIMENTS, store
from atlas.beside.retrieval import RETRIEVALS
from schema.open.kinds import Companion
from schema.open.store import open_writer
from tests.atlas.collections.tiny_collections import write_tiny_collections
from tests.atlas.experiments.tiny_experiments import arrow, live
from tests.atlas.retrieval.tiny_retrievals import write_tiny_retrievals

LARGEST = 2**31 - 1
LOOK = Address("key", 0, 0, 1)


@pytest.fixture
def path(tiny_path: Path, tmp_path: Path) -> Path:
    """The tiny atlas with a file of each kind beside it."""
    copy = Path(shutil.copy(tiny_path, tmp_path / "tiny.duckdb"))
    for kind in (ANNOTATIONS, EXPERIMENTS):
        shutil.copy(kind.path(tiny_path), kind.path(copy))
    write_tiny_collections(copy)
    write_tiny_retrievals(copy)
    return copy


def plant(file: Path, *statements: str) -> None:
    with closing(open_writer(file)) as con:
        for statement in statements:
            con.execute(statement)


def save_look(path: Path) -> None:
    with atlas.open(path) as a:
        add(a.con, path, LOOK, "zoe", None)


def save_collection(path: Path) -> None:
    with atlas.open(path) as a:
        assert keeping.add(a.con, path, "hers", [members.position(2)], by="zoe") == (1, 0)


def save_experiment(path: Path) -> None:
    store.save(path, arrow(live()))


def count_experiments(path: Path) -> int:
    with closing(open_writer(EXPERIMENTS.path(path))) as con:
        return con.execute("SELECT count(*) FROM experiment").fetchall()[0][0]


@pytest.mark.parametrize(
    ("kind", "table", "column", "save"),
    [
        (ANNOTATIONS, "annotation", "annotation_id", save_look),
        (COLLECTIONS, "collection", "collection_id", save_collection),
        (EXPERIMENTS, "experiment", "experiment_id", save_experiment),
        (RETRIEVALS, "retrieval", "retrieval_id", write_tiny_retrievals),
    ],
)
def test_the_largest_id_ends_no_saving(path: Path, kind: Companion, table: str, column: str, save) -> None:
    with closing(open_writer(kind.path(path))) as con:
        before = [n for (n,) in con.execute(f"SELECT {column} FROM {table} ORDER BY 1").fetchall()]
        extra = ", 'planted' AS name" if table == "collection" else ""
        con.execute(f"INSERT INTO {table} SELECT r.* REPLACE ({LARGEST} AS {column}{extra}) FROM {table} AS r LIMIT 1")
    save(path)
    with closing(open_writer(kind.path(path))) as con:
        assert [n for (n,) in con.execute(f"SELECT {column} FROM {table} ORDER BY 1").fetchall()] == [*before, before[-1] + 1, LARGEST]


def test_the_largest_number_of_a_member_is_named(path: Path) -> None:
    plant(COLLECTIONS.path(path), f"UPDATE collection_member SET number = {LARGEST} WHERE kind = 'token'")
    with atlas.open(path) as a, pytest.raises(AtlasError, match=r"cats has a member with the number 2,147,483,647, and 1 more would pass the largest"):
        keeping.add(a.con, path, "cats", [members.component("L0N2")], by="zoe")


def test_rules_that_others_experiments_break_hinder_nobodys(path: Path) -> None:
    """Of an effect, whose audit selects every column, and of a status."""
    plant(
        EXPERIMENTS.path(path),
        "UPDATE effect SET n_draws = 0 WHERE experiment_id = (SELECT max(experiment_id) FROM effect)",
        "UPDATE experiment SET finished_at = NULL WHERE experiment_id = (SELECT min(experiment_id) FROM experiment)",
    )
    before = count_experiments(path)
    save_experiment(path)
    assert count_experiments(path) == before + 1


def test_a_rule_of_the_whole_file_is_not_said_to_be_the_new_experiments(path: Path) -> None:
    plant(EXPERIMENTS.path(path), "INSERT INTO token_text VALUES (5000, 'once'), (5000, 'twice')")
    with pytest.raises(AtlasError, match=r"the experiments beside this atlas break a rule, so none is saved with them: .*token_text.* Move their file away"):
        save_experiment(path)


def test_texts_that_were_planted_are_replaced_by_the_atlas_s(path: Path) -> None:
    """U+FFFD is how an earlier release wrote what this one spells: of a token that it begins, nothing is compared."""
    plant(path, "UPDATE token SET text = '⟨E2 98⟩' WHERE token_id = 3")
    plant(EXPERIMENTS.path(path), "DELETE FROM token_text", "INSERT INTO token_text SELECT 3, chr(65533) || ' EVIL' FROM range(2)")
    save_experiment(path)
    with atlas.open(path) as a:
        assert a.sql("SELECT t.text FROM experiments.token_text AS t WHERE t.token_id = 3").rows() == [("⟨E2 98⟩",)]


def test_documents_that_were_planted_are_replaced_by_the_atlas_s(path: Path) -> None:
    with atlas.open(path) as a:
        before = a.knn_neighbours(100).rows()
    planted = "INSERT INTO position_text SELECT t.* REPLACE ('EVIL' AS document) FROM position_text AS t, range(2)"
    plant(RETRIEVALS.path(path), planted, "DELETE FROM position_text WHERE document <> 'EVIL'", "DELETE FROM retrieval")
    write_tiny_retrievals(path)
    with atlas.open(path) as a:
        assert [row[1:] for row in a.knn_neighbours(100).rows()] == [row[1:] for row in before]
        assert a.sql("SELECT t.document FROM retrievals.position_text AS t WHERE t.document = 'EVIL'").is_empty()


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("save", [save_look, save_collection])
def test_nothing_is_saved_for_weights_that_the_atlas_does_not_name(path: Path, save) -> None:
    plant(path, "CREATE TABLE m AS SELECT * REPLACE (NULL::VARCHAR AS weights_sha256) FROM model", "DROP TABLE model", "ALTER TABLE m RENAME TO model")
    with pytest.raises(AtlasError, match="this atlas does not say which weights it was made from"):
        save(path)


def test_an_atlas_that_holds_rows_many_times_is_opened_as_soon(path: Path) -> None:
    """Of one position of a collection: 500 rows in each of four tables, whose join would have 10^15."""
    with closing(open_writer(path)) as con:
        (at,) = con.execute("SELECT position_id, sequence_id, token_id FROM position WHERE position_id = 2").fetchall()
        (of,) = con.execute("SELECT first_position_id, document_id FROM sequence WHERE sequence_id = ?", [at[1]]).fetchall()
        named = {"position": (*at[:1], *of[:1]), "sequence": at[1:2], "document": of[1:], "token": at[2:]}
        for table, ids in named.items():
            rows = f"SELECT r.* FROM {table} AS r, range(500) WHERE r.{table}_id IN ({', '.join(map(str, ids))})"
            con.execute(f"CREATE TABLE many AS FROM {table} UNION ALL {rows}; DROP TABLE {table} CASCADE; ALTER TABLE many RENAME TO {table}")
    with atlas.open(path) as a:
        assert a.sql("SELECT m.kind FROM collections.collection_member AS m WHERE m.position_id = 2").rows() == [("position",)]

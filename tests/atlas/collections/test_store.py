"""Collections: what is added is there for whoever opens the atlas next, whatever happens meanwhile, and what is wrong changes nothing."""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import duckdb
import polars as pl
import pytest

import atlas
from atlas import AtlasError
from atlas.beside.collections import COLLECTIONS, keeping, members
from atlas.beside.collections.filtering import restrict_to_collection
from schema.open import store
from schema.open.change import change_companion
from schema.open.drafts import left_drafts
from tests.atlas.tiny_atlas import write_tiny_atlas

WHAT = "kind, layer, neuron, head, position_id, token_id, text, added_by"


@pytest.fixture
def path(tiny_path: Path, tmp_path: Path) -> Path:
    """The tiny atlas without collections."""
    return Path(shutil.copy(tiny_path, tmp_path / "tiny.duckdb"))


def rows_of(path: Path, name: str, columns: str = WHAT) -> list[tuple]:
    with atlas.open(path) as a:
        return a.in_collection(name).select(columns.split(", ")).rows()


def add(path: Path, name: str, *addresses: str, by: str = "ada", note: str = "") -> int:
    with atlas.open(path) as a:
        return a.collect(name, addresses, by=by, note=note)


def test_what_is_added_is_read_back_with_what_the_atlas_shows(path: Path) -> None:
    with atlas.open(path) as a:
        things = [members.component("L0N1"), members.component("L1H0"), members.position(2), members.token(2), members.component("l0n1")]
        assert keeping.add(a.con, path, "Mixed", things, by="ada", note="of all kinds") == (4, 0)
        assert keeping.add(a.con, path, "mixed", things[:2], by="bea") == (0, 2)
        assert a.collections().is_empty()
    # value L0N1 promotes tokens 3 and 7, as tiny_atlas.py says
    assert rows_of(path, "mixed") == [
        ("neuron", 0, 1, None, None, None, "␣sat · ␣*", "ada"),
        ("head", 1, None, 0, None, None, "", "ada"),
        ("position", None, None, None, 2, None, "The cat", "ada"),
        ("token", None, None, None, None, 2, " cat", "ada"),
    ]
    with atlas.open(path) as a:
        assert a.collections().select("name", "n_members", "note", "made_by").rows() == [("Mixed", 4, "of all kinds", "ada")]


def test_rows_of_an_answer_are_collected_as_what_they_are_of(path: Path) -> None:
    with atlas.open(path) as a:
        assert a.collect("promoting", a.neurons_promoting(" sat"), by="ada") == 3
        with pytest.raises(AtlasError, match="these rows name nothing to collect: they have name"):
            a.collect("none", pl.DataFrame({"name": ["x"]}), by="ada")
        with pytest.raises(AtlasError, match="to collect: layer is of type Float64, neuron is of type Float64; layers, neurons and heads must be integers"):
            a.collect("none", pl.DataFrame({"layer": [0.5], "neuron": [1.0]}), by="ada")
    assert sorted(rows_of(path, "promoting", "layer, neuron")) == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.thorough
def test_a_collection_is_a_table_that_joins_with_the_atlas(path: Path) -> None:
    add(path, "two", "L0N1", "L2N3", "L1H0")
    with atlas.open(path) as a:
        joined = a.sql("SELECT n.layer, n.neuron FROM neuron AS n SEMI JOIN collections.in_collection('two') AS m USING (layer, neuron) ORDER BY ALL")
        assert joined.rows() == [(0, 1), (2, 3)]


def test_a_collection_narrows_any_statement_and_keeps_its_order(path: Path) -> None:
    add(path, "three", "L0N1", "L2N3", "L1N0")
    with atlas.open(path) as a:
        sql = restrict_to_collection("SELECT layer, neuron FROM neuron ORDER BY layer DESC, neuron;", ["layer", "neuron"], "THREE")
        assert a.sql(sql).rows() == [(2, 3), (1, 0), (0, 1)]
        with pytest.raises(AtlasError, match="these have token"):
            restrict_to_collection("FROM x", ["token"], "three")


@pytest.mark.thorough
def test_what_was_added_from_another_model_is_no_member_here(path: Path) -> None:
    """As in the file of an atlas that was ingested anew from other weights: nothing is refused, and nothing is taken for another component."""
    add(path, "old", "L0N1")
    con = store.open_writer(path)
    con.execute("UPDATE model SET weights_sha256 = 'other'")
    con.close()
    with atlas.open(path) as a:
        assert "collections: 1 of another model than this atlas's, not shown here, but kept in the file" in a.status().notes
        assert a.in_collection("old").is_empty()
        assert a.sql("FROM neuron SEMI JOIN collections.in_collection('old') USING (layer, neuron)").is_empty()
        assert a.sql(restrict_to_collection("FROM neuron", ["layer", "neuron"], "old")).is_empty()
        assert a.collect("old", ["L0N1"], by="bea") == 1
        with pytest.raises(AtlasError, match="old has no L1N1 of this atlas's model and text"):
            keeping.remove(path, "old", [members.component("L1N1")])
        assert keeping.remove(path, "old", [members.component("L0N1")]) == 1
    with closing(store.open_writer(COLLECTIONS.path(path))) as con:
        assert con.execute("SELECT layer, neuron, added_by, weights_sha256 FROM collection_member").fetchall() == [(0, 1, "ada", "ww")]


@pytest.mark.parametrize(
    ("thing", "why"),
    [
        (members.component("L3N0"), "no neuron L3N0: this model has layers 0 to 2, neurons 0 to 3"),
        (members.component("L0N4"), "no neuron L0N4"),
        (members.component("L0H9"), "no head L0H9"),
        (members.position(77), "this atlas has no position 77"),
        (members.token(99), "this atlas has no token 99"),
    ],
)
def test_what_the_atlas_does_not_have_is_refused_whole(path: Path, thing: members.Member, why: str) -> None:
    with atlas.open(path) as a, pytest.raises(AtlasError, match=why):
        keeping.add(a.con, path, "x", [members.component("L0N1"), thing], by="ada")
    assert not COLLECTIONS.path(path).exists()


@pytest.mark.parametrize("name", ["", " ", "a" * 61, "a\nb", "a'b", "a/b", "<b>", "-x", "a\u202eb", "\ud800"])
def test_a_name_is_short_and_plain(path: Path, name: str) -> None:
    with pytest.raises(AtlasError, match="cannot name a collection: a name has 1 to 60"):
        add(path, name, "L0N1")


@pytest.mark.ci_cases(2)
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["money", "a" * 60, "Été 2 (v1.0), a+b_c-d:e", "金錢", "पैसा"])
def test_a_name_in_any_script_is_found_in_either_case(path: Path, name: str) -> None:
    add(path, f" {name} ", "L0N1")
    assert len(rows_of(path, name.upper())) == 1
    with atlas.open(path) as a:
        assert a.collections()["name"].to_list() == [name]


@pytest.mark.thorough
def test_bounds_are_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_MEMBERS", 2)
    monkeypatch.setattr(keeping, "MOST_COLLECTIONS", 1)
    add(path, "one", "L0N0", "L0N1")
    with pytest.raises(AtlasError, match="at most 2 members, and this one would have 3"):
        add(path, "one", "L0N2")
    with pytest.raises(AtlasError, match="at most 2 members, and this one would have 3"):
        add(path, "one", "L0N0", "L0N1", "L0N2")
    with pytest.raises(AtlasError, match="a file holds at most 1: remove one"):
        add(path, "two", "L0N0")
    with pytest.raises(AtlasError, match="a note has at most 2,000 characters"):
        add(path, "one", "L0N0", note="x" * 2001)
    with pytest.raises(AtlasError, match="nothing to add"):
        add(path, "one")
    monkeypatch.setattr(keeping, "MOST_MEMBERS", 3)
    monkeypatch.setattr(keeping, "MOST_IN_FILE", 2)
    with pytest.raises(AtlasError, match="may have 2 members together, and already have 2: remove a collection"):
        add(path, "one", "L0N2")
    assert rows_of(path, "one", "neuron") == [(0,), (1,)]


def test_a_note_is_never_lost_by_adding(path: Path) -> None:
    add(path, "x", "L0N0")
    add(path, "x", "L0N1", note="first")
    with pytest.raises(AtlasError, match="x has a note already: 'first'"):
        add(path, "x", "L0N2", note="second")
    keeping.describe(path, "x", "second")
    with atlas.open(path) as a:
        assert a.collections().select("n_members", "note").rows() == [(2, "second")]


@pytest.mark.thorough
def test_removing_and_renaming(path: Path) -> None:
    add(path, "a", "L0N0", "L0N1", "L0N2")
    add(path, "b", "L1N0")
    with pytest.raises(AtlasError, match="there is a collection B already"):
        keeping.rename(path, "a", "B")
    keeping.rename(path, "a", "A")
    with atlas.open(path) as a:
        assert keeping.remove(path, "a", [members.component("L0N1")]) == 1
    assert rows_of(path, "a", "number, neuron") == [(0, 0), (2, 2)]
    add(path, "a", "L0N1")
    assert rows_of(path, "a", "number, neuron") == [(0, 0), (2, 2), (3, 1)]
    assert keeping.remove_whole(path, "a") == 3
    with atlas.open(path) as a:
        assert a.collections()["name"].to_list() == ["b"]
        with pytest.raises(AtlasError, match="no collection 'a'; available: b"):
            a.in_collection("a")


@pytest.mark.thorough
def test_collections_survive_a_new_atlas(path: Path) -> None:
    add(path, "x", "L0N1")
    path.unlink()
    write_tiny_atlas(path)
    assert len(rows_of(path, "x")) == 1


@pytest.mark.thorough
def test_what_a_change_that_died_left_behind_is_no_hindrance(path: Path) -> None:
    add(path, "x", "L0N1")
    begun = "import os\nfrom atlas.beside.collections import COLLECTIONS\nfrom schema.open import change\n"
    begun += "change.put_in_place = lambda *_: os._exit(9)\n"
    code = f"{begun}with change.change_companion(COLLECTIONS, {str(path)!r}) as con:\n    con.execute('DELETE FROM collections.collection_member')"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert left_drafts(COLLECTIONS.path(path))
    assert len(rows_of(path, "x")) == 1
    add(path, "x", "L0N2")
    assert rows_of(path, "x", "neuron") == [(1,), (2,)]
    assert sorted(p.name for p in path.parent.glob("tiny*")) == ["tiny.collections.duckdb", "tiny.duckdb"]


@pytest.mark.thorough
def test_of_two_threads_the_second_waits(path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda i: add(path, "x", f"L0N{i}"), range(4)))
    assert sorted(rows_of(path, "x", "number, neuron")) == [(i, row[1]) for i, row in enumerate(sorted(rows_of(path, "x", "number, neuron")))]
    assert {row[0] for row in rows_of(path, "x", "neuron")} == {0, 1, 2, 3}


@pytest.mark.thorough
def test_an_open_reader_is_no_hindrance_and_keeps_what_it_has(path: Path) -> None:
    add(path, "x", "L0N1")
    with atlas.open(path) as a:
        add(path, "x", "L0N2")
        assert a.in_collection("x").height == 1
    assert len(rows_of(path, "x")) == 2


@pytest.mark.thorough
def test_a_file_of_another_release_is_read_and_one_of_another_version_refused(path: Path) -> None:
    add(path, "x", "L0N1")
    con = duckdb.connect()
    con.execute(f"ATTACH '{COLLECTIONS.path(path)}' AS collections")
    con.execute("UPDATE collections.collection_schema SET derived_sha256 = 'older'; DROP MACRO TABLE collections.in_collection")
    con.execute("DETACH collections")
    assert len(rows_of(path, "x")) == 1
    con.execute(f"ATTACH '{COLLECTIONS.path(path)}' AS collections")
    con.execute("UPDATE collections.collection_schema SET version = 7")
    con.close()
    with pytest.raises(AtlasError, match=r"tiny\.collections\.duckdb has version 7; this is activation-atlas for collections of version 1"):
        atlas.open(path)
    before = COLLECTIONS.path(path).read_bytes()
    with pytest.raises(AtlasError, match="has version 7"), change_companion(COLLECTIONS, path):
        pass
    assert COLLECTIONS.path(path).read_bytes() == before


def test_a_typed_statement_cannot_write_them(path: Path) -> None:
    add(path, "x", "L0N1")
    with atlas.open(path) as a:
        for statement in ("DELETE FROM collections.collection", "DROP TABLE collections.collection_member", "DETACH collections"):
            with pytest.raises(AtlasError):
                a.sql(statement)
        with pytest.raises(duckdb.Error):
            a.con.execute("DELETE FROM collections.collection")


def test_the_file_answers_without_us(path: Path) -> None:
    add(path, "x", "L0N1")
    con = duckdb.connect()
    con.execute(f"ATTACH '{COLLECTIONS.path(path)}' AS collections (READ_ONLY)")
    assert con.execute("SELECT layer, neuron FROM collections.in_collection('x')").fetchall() == [(0, 1)]


def test_points_of_the_map_are_values_or_states() -> None:
    columns = {"layer": pl.Int16, "neuron": pl.Int32, "position_id": pl.Int64}
    states = pl.DataFrame({"layer": [3, 3], "neuron": [None, None], "position_id": [7, 8]}, schema=columns)
    assert members.in_rows(states) == [members.position(7), members.position(8)]
    values = pl.DataFrame({"layer": [3], "neuron": [5], "position_id": [None]}, schema=columns)
    assert members.in_rows(values) == [members.component("L3N5")]
    assert members.in_rows(states.head(0)) == []

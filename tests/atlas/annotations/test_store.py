"""The file beside the atlas: attached to what is opened, changed as a whole, and left alone by whatever happens to the atlas."""

import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import atlas
from atlas import AtlasError, NotAnAtlas
from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.annotations.steps import status
from atlas.beside.annotations.subjects import Address
from schema.open import store
from schema.open.change import change_companion
from schema.open.drafts import left_drafts
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.tiny_atlas import write_tiny_atlas

LOOK = "INSERT INTO annotations.annotation VALUES (0, 'key', 0, 0, 1, 3, 'anna', FALSE, 'ww', '2026-01-02 03:04:05+00')"


@pytest.fixture
def path(tiny_path: Path, tmp_path: Path) -> Path:
    """The tiny atlas without annotations."""
    return Path(shutil.copy(tiny_path, tmp_path / "tiny.duckdb"))


@pytest.fixture
def annotated_path(path: Path, tiny_path: Path) -> Path:
    shutil.copy(ANNOTATIONS.path(tiny_path), ANNOTATIONS.path(path))
    return path


def annotate_l0n1(path: Path) -> None:
    """Anna has looked at key L0N1 as the tiny atlas shows it."""
    with change_companion(ANNOTATIONS, path) as con:
        con.execute(LOOK)
        for rank, position, token_id, before, token in ((1, 3, 3, "The cat", " sat"), (2, 9, 3, "The dog", " sat"), (3, 2, 2, "The", " cat")):
            con.execute("INSERT INTO annotations.annotation_item VALUES (0, ?, ?, ?, FALSE, ?, ?)", (rank, position, token_id, before, token))


def n_annotations(path: Path) -> int:
    with atlas.open(path) as a:
        return a.sql("SELECT count(*) FROM annotations.annotation").item()


def test_an_atlas_without_annotations_answers_with_no_rows(path: Path) -> None:
    with atlas.open(path) as a:
        assert a.geva2021_fig2().is_empty()
        assert a.geva2021_fig2().columns[:2] == ["layer", "annotator_kind"]
        assert a.sql("SELECT n.layer FROM neuron AS n INNER JOIN annotations.annotation AS a ON n.layer = a.layer").is_empty()
        assert status(a.con)[0].is_empty()
        with pytest.raises(AtlasError, match="no annotator 'anna'; there are none yet"):
            a.geva2021_fig2(annotator="anna")
    assert not ANNOTATIONS.path(path).exists()


def test_annotations_join_with_the_atlas(annotated_path: Path) -> None:
    sql = (
        "SELECT s.layer, s.neuron, p.kind FROM neuron_statistics AS s "
        "INNER JOIN annotations.annotation AS a ON s.corpus_id = a.corpus_id AND s.layer = a.layer AND s.neuron = a.item "
        "INNER JOIN annotations.pattern AS p ON a.annotation_id = p.annotation_id "
        "WHERE a.subject = 'key' AND a.annotator = 'anna' ORDER BY ALL"
    )
    with atlas.open(annotated_path) as a:
        assert a.sql(sql).rows() == [(0, 0, "semantic"), (0, 0, "shallow"), (2, 0, "shallow")]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO annotations.pattern VALUES (99, 0, 'shallow', 'x')",
        "DELETE FROM annotations.annotation",
        "DROP TABLE annotations.pattern",
        "DETACH annotations",
        "ATTACH '{path}' AS other",
        "USE annotations",
        "COPY annotations.pattern TO '{path}'",
        "CREATE TABLE annotations.x (i INTEGER)",
    ],
)
def test_annotations_open_no_way_out(annotated_path: Path, tmp_path: Path, statement: str) -> None:
    before = ANNOTATIONS.path(annotated_path).read_bytes()
    with atlas.open(annotated_path) as a:
        with pytest.raises(AtlasError):
            a.sql(statement.format(path=ANNOTATIONS.path(annotated_path)))
        # the connection itself is as locked as what is typed
        with pytest.raises(duckdb.Error):
            a.con.execute("DELETE FROM annotations.annotation")
        with pytest.raises(duckdb.Error):
            a.con.execute(f"ATTACH '{tmp_path / 'new.duckdb'}' AS new")
    assert ANNOTATIONS.path(annotated_path).read_bytes() == before
    assert not (tmp_path / "new.duckdb").exists()


def test_annotations_survive_a_new_atlas(path: Path) -> None:
    annotate_l0n1(path)
    path.unlink()
    write_tiny_atlas(path)
    with atlas.open(path) as a:
        frame, stale = status(a.con)
    assert frame.drop("last_loaded").rows() == [("key", "anna", "person", 1, 0, 3, 0.0, 0)]
    assert stale == []


@pytest.mark.thorough
def test_what_the_atlas_no_longer_shows_is_reported_and_kept(path: Path) -> None:
    annotate_l0n1(path)
    con = store.open_writer(path)
    con.execute("UPDATE document SET text = replace(text, 'cat', 'cow')")
    con.close()
    with atlas.open(path) as a:
        frame, stale = status(a.con)
        # the first and third text have a cow now; the second is another sequence
        assert stale == [("anna", Address("key", 0, 0, 1), 1), ("anna", Address("key", 0, 0, 1), 3)]
        assert frame["n_stale"].to_list() == [2]
        assert a.geva2021_fig2()["n_prefixes"].to_list() == [3]
    con = store.open_writer(path)
    con.execute("DELETE FROM trigger")
    con.close()
    with atlas.open(path) as a:
        assert status(a.con)[0]["n_stale"].to_list() == [3]


def test_a_new_rank_alone_is_not_stale(path: Path) -> None:
    annotate_l0n1(path)
    con = store.open_writer(path)
    con.execute("UPDATE trigger SET rank = 4 - rank WHERE layer = 0 AND neuron = 1")
    con.close()
    with atlas.open(path) as a:
        assert status(a.con)[1] == []


def test_a_change_that_fails_leaves_nothing(path: Path) -> None:
    annotate_l0n1(path)
    before = ANNOTATIONS.path(path).read_bytes()
    with pytest.raises(duckdb.Error), change_companion(ANNOTATIONS, path) as con:
        con.execute("DELETE FROM annotations.annotation; SELECT no_such_column")
    assert ANNOTATIONS.path(path).read_bytes() == before
    assert sorted(p.name for p in path.parent.glob("tiny*")) == ["tiny.annotations.duckdb", "tiny.duckdb"]


@pytest.mark.thorough
def test_what_a_change_that_died_left_behind_is_no_hindrance(path: Path) -> None:
    begun = "import os\nfrom atlas.beside.annotations import ANNOTATIONS\nfrom schema.open import change\n"
    begun += "change.put_in_place = lambda *_: os._exit(9)\n"
    code = f"{begun}with change.change_companion(ANNOTATIONS, {str(path)!r}) as con:\n    con.execute({LOOK!r})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert left_drafts(ANNOTATIONS.path(path))
    assert n_annotations(path) == 0
    annotate_l0n1(path)
    assert n_annotations(path) == 1
    assert sorted(p.name for p in path.parent.glob("tiny*")) == ["tiny.annotations.duckdb", "tiny.duckdb"]


@pytest.mark.thorough
def test_of_two_threads_that_change_them_the_second_waits(path: Path) -> None:
    """Both insert a row that counts from those there are, so that one who began too early would lose the other's."""
    counted = "INSERT INTO annotations.pattern SELECT count(*), 0, 'names', 'by a thread' FROM annotations.pattern"
    begun = threading.Barrier(4)

    def change(_: int) -> None:
        begun.wait(10)
        with change_companion(ANNOTATIONS, path) as writer:
            writer.execute(counted)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(change, range(4)))
    with atlas.open(path) as a:
        assert a.sql("SELECT pattern_id FROM annotations.pattern ORDER BY 1")["pattern_id"].to_list() == [0, 1, 2, 3]


@pytest.mark.thorough
def test_an_open_atlas_is_no_hindrance_and_keeps_what_it_has(annotated_path: Path) -> None:
    with atlas.open(annotated_path) as a:
        n = a.sql("SELECT count(*) FROM annotations.annotation").item()
        with change_companion(ANNOTATIONS, annotated_path) as con:
            con.execute("DELETE FROM annotations.annotation")
        assert a.sql("SELECT count(*) FROM annotations.annotation").item() == n > 0
    assert n_annotations(annotated_path) == 0


def test_the_rows_of_another_release_are_read_with_the_questions_of_this(annotated_path: Path) -> None:
    con = duckdb.connect()
    con.execute(f"ATTACH '{ANNOTATIONS.path(annotated_path)}' AS annotations")
    con.execute("UPDATE annotations.annotation_schema SET derived_sha256 = 'older'")
    con.execute("DROP MACRO TABLE annotations.geva2021_fig2")
    con.close()
    with atlas.open(annotated_path) as a:
        assert a.geva2021_fig2()["n_prefixes"].to_list() == [18, 8]


def test_a_file_of_another_version_is_refused(annotated_path: Path) -> None:
    con = duckdb.connect()
    con.execute(f"ATTACH '{ANNOTATIONS.path(annotated_path)}' AS annotations")
    con.execute("UPDATE annotations.annotation_schema SET version = 7")
    con.close()
    with pytest.raises(AtlasError, match=r"tiny\.annotations\.duckdb has version 7; this is activation-atlas for annotations of version 1"):
        atlas.open(annotated_path)


def test_a_file_that_is_none_is_refused_with_what_to_do(path: Path) -> None:
    ANNOTATIONS.path(path).write_text("no database")
    with pytest.raises(AtlasError, match=r"cannot read the annotations in .*tiny\.annotations\.duckdb.*Move the file away"):
        atlas.open(path)


def test_the_file_answers_without_us(annotated_path: Path) -> None:
    """Any DuckDB: attach, ask."""
    con = duckdb.connect()
    con.execute(f"ATTACH '{ANNOTATIONS.path(annotated_path)}' AS annotations (READ_ONLY)")
    assert con.execute("SELECT n_keys FROM annotations.geva2021_fig2()").fetchall() == [(4,), (2,)]


def test_an_atlas_may_not_take_the_name(path: Path) -> None:
    with pytest.raises(AtlasError, match="an atlas cannot be called annotations"):
        atlas.open(shutil.copy(path, path.with_name("annotations.duckdb")))


def test_annotations_are_no_atlas(annotated_path: Path) -> None:
    with pytest.raises(NotAnAtlas, match=r"atlases beside it: tiny\.duckdb$"):
        atlas.open(annotated_path.with_name("other.duckdb"))
    with pytest.raises(NotAnAtlas, match="is not an atlas"):
        atlas.open(ANNOTATIONS.path(annotated_path))


def test_the_dictionary_explains_annotations_too(path: Path) -> None:
    with atlas.open(path) as a:
        dictionary = a.schema().filter(relation="annotations.pattern")
    assert dictionary["column"].to_list() == ["pattern_id", "annotation_id", "kind", "description"]
    assert dictionary["meaning"].null_count() == 0


@pytest.mark.thorough
def test_the_tiny_annotations_are_read_back_as_written(annotated_path: Path) -> None:
    write_tiny_annotations(Path(shutil.copy(annotated_path, annotated_path.with_name("second.duckdb"))))
    with atlas.open(annotated_path) as a:
        frame, stale = status(a.con)
    # looks, patterns, items, covered: tiny_annotations.py
    assert frame.select("subject", "annotator", "annotator_kind", "n_annotated", "n_patterns", "n_items").rows() == [
        ("ffn_update", "miner", "proposed", 1, 1, 4),
        ("key", "anna", "person", 3, 3, 13),
        ("key", "bert", "person", 3, 2, 13),
        ("key", "miner", "proposed", 1, 1, 5),
        ("random_vector", "anna", "person", 1, 0, 5),
        ("value", "anna", "person", 3, 3, 15),
    ]
    assert frame["covered"].to_list() == pytest.approx([1, 8 / 13, 7 / 13, 1, 0, 9 / 15])
    assert len(stale) == frame["n_stale"].sum() == 55

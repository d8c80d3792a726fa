"""What lies beside an atlas and is of another model or text: no figure counts it, each says so, and the file keeps it."""

import shutil
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import atlas
from atlas import AtlasError
from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.annotations.adding import add
from atlas.beside.annotations.subjects import Address, Pattern, read_shown_items
from atlas.beside.collections import COLLECTIONS, keeping, members
from atlas.cli.main import cli
from atlas.papers.make import make_item
from schema.open.others import differ
from schema.open.store import open_writer
from tests.atlas.annotations.tiny_annotations import LOOKS
from tests.atlas.collections.tiny_collections import MEMBERS, write_tiny_collections
from tests.atlas.papers.rows import ITEMS
from tests.atlas.tiny_atlas import split_sequences

FIGURES = ("geva2021_fig2", "geva2021_patterns", "geva2022_concepts", "geva2022_fig2", "annotated_patterns", "annotation_agreement")


@pytest.fixture
def path(tiny_path: Path, tmp_path: Path) -> Path:
    """The tiny atlas with its annotations and collections."""
    copy = Path(shutil.copy(tiny_path, tmp_path / "tiny.duckdb"))
    shutil.copy(ANNOTATIONS.path(tiny_path), ANNOTATIONS.path(copy))
    write_tiny_collections(copy)
    split_sequences(copy, 0)
    return copy


def change(path: Path, *statements: str) -> None:
    with closing(open_writer(path)) as con:
        for statement in statements:
            con.execute(statement)


def count_kept(path: Path) -> list[int]:
    """Rows that the files beside it hold."""
    found = []
    for kind, tables in ((ANNOTATIONS, ("annotation", "annotation_item", "pattern", "pattern_match")), (COLLECTIONS, ("collection_member",))):
        with closing(open_writer(kind.path(path))) as con:
            found += [con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in tables]
    return found


@pytest.mark.thorough
def test_a_model_that_was_replaced_takes_nobodys_annotations_and_members(path: Path) -> None:
    before = count_kept(path)
    change(path, "UPDATE model SET weights_sha256 = 'other'")
    said = f"annotations: {len(LOOKS)} of another model than this atlas's, not shown here, but kept in the file"
    with atlas.open(path) as a:
        assert [a.ask(name).height for name in FIGURES] == [0] * len(FIGURES)
        assert a.in_collection("cats").is_empty()
        assert said in make_item(a, ITEMS["geva2021_fig2"], {}).reason
        assert {said, f"collections: {len(MEMBERS)} of another model than this atlas's, not shown here, but kept in the file"} <= {*a.status().notes}
        # by whatever way it is asked
        assert a.sql("SELECT count(*) FROM annotations.annotation_item", own_process=True).item() == 0
        assert a.sql("SELECT count(*) FROM annotations.pattern_match").item() == 0
    assert f"note: {said}\n" in CliRunner().invoke(cli, ["ask", "geva2021_fig2", "--db", str(path)]).stderr
    assert f"note: {said}\n" in CliRunner().invoke(cli, ["annotate", "status", "--db", str(path)]).stderr
    assert count_kept(path) == before


def test_annotations_of_a_text_that_was_replaced_are_left_out_each_by_itself(path: Path) -> None:
    """Position 5 ends a text of L0N0 alone, by anna, bert and the miner: those of the other keys are of four texts."""
    change(path, "UPDATE position SET token_id = 10 WHERE position_id = 5", "UPDATE document SET text = replace(text, 'The cat', 'Our cat')")
    said = "annotations: 3 of another text than this atlas's, not shown here, but kept in the file"
    with atlas.open(path) as a:
        assert a.geva2021_fig2().select("layer", "annotator_kind", "n_keys").rows() == [(0, "person", 2), (2, "person", 2)]
        assert {said, "collections: 1 of another text than this atlas's, not shown here, but kept in the file"} <= {*a.status().notes}
        assert a.in_collection("cats")["kind"].to_list() == ["neuron", "neuron", "head", "token"]
        assert f"Note: {said}." in make_item(a, ITEMS["geva2021_fig2"], {}).caption


def test_an_update_or_a_random_vector_of_another_draw_is_left_out(path: Path) -> None:
    change(path, "UPDATE control_token SET token_id = 11 WHERE control = 'random_vector' AND layer = 0 AND item = 0 AND rank = 1")
    with atlas.open(path) as a:
        assert "annotations: 1 of another text than this atlas's, not shown here, but kept in the file" in a.status().notes
        assert a.geva2022_concepts()["subject"].to_list() == ["value", "ffn_update"]


def test_what_is_of_this_atlas_is_attached_as_it_lies_there(path: Path) -> None:
    with atlas.open(path) as a:
        assert a.sql("SELECT table_name FROM duckdb_tables() WHERE table_name = 'left_out'").is_empty()
        assert a.geva2021_fig2()["n_keys"].to_list() == [4, 2]


@pytest.mark.thorough
def test_a_change_neither_sees_nor_takes_what_is_of_another_text(path: Path) -> None:
    """A member of the same position is added beside the other, and removed alone; so is a look at the same key."""
    change(path, "UPDATE document SET text = replace(text, 'The cat', 'Our cat')", "UPDATE position SET token_id = 10 WHERE position_id = 5")
    before = count_kept(path)
    with atlas.open(path) as a:
        assert keeping.add(a.con, path, "cats", [members.position(2)], by="bea") == (1, 0)
        assert keeping.add(a.con, path, "cats", [members.position(2)], by="bea") == (0, 1)
        assert keeping.remove(path, "cats", [members.position(2)]) == 1
        with pytest.raises(AtlasError, match="cats has no position 2 of this atlas"):
            keeping.remove(path, "cats", [members.position(2)])
        with pytest.raises(AtlasError, match="cats has 1 members of another model or text, which would be removed too"):
            keeping.remove_whole(path, "cats")
        key = Address("key", 0, 0, 0)
        ranks = tuple(item.rank for item in read_shown_items(a.con, [key])[key])
        assert add(a.con, path, key, "anna", Pattern("shallow", "of the new text", ranks)) == 1
        assert add(a.con, path, key, "anna", Pattern("shallow", "of the new text too", ranks)) == 2
    # the look at the new text, its three items and two patterns of three
    assert count_kept(path) == [n + more for n, more in zip(before, (1, len(ranks), 2, 2 * len(ranks), 0), strict=True)]
    change(path, "UPDATE document SET text = replace(text, 'Our cat', 'The cat')", "UPDATE position SET token_id = 9 WHERE position_id = 5")
    with atlas.open(path) as a:
        assert [row[0] for row in a.annotated_patterns(annotator="anna", subject="key").select("description").rows()][:2] == ["ends with cat", "animals"]


def test_what_a_file_says_that_was_left_out_is_not_believed(path: Path) -> None:
    change(COLLECTIONS.path(path), "CREATE TABLE left_out AS SELECT 'model' AS reason, 777 AS n")
    with atlas.open(path) as a:
        assert not [note for note in a.status().notes if "777" in note]
    change(path, "UPDATE model SET weights_sha256 = 'other'")
    with atlas.open(path) as a:
        assert f"collections: {len(MEMBERS)} of another model than this atlas's, not shown here, but kept in the file" in a.status().notes
    change(path, "UPDATE model SET weights_sha256 = 'ww'")
    with (
        atlas.open(path) as a,
        pytest.raises(AtlasError, match=r"has tables or columns that this release does not know, and a change would drop them: left_out"),
    ):
        a.collect("new", ["L0N1"], by="bea")


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("there", "here", "is_other"),
    [
        (" cat", " cat", False),
        (" cat", " dog", True),
        ("a\ufffdb\ufffdc", "a⟨80 62 80⟩c", False),
        ("\ufffd", "⟨F0 9F⟩", False),
        ("a\ufffd", "b⟨80⟩", True),
        ("a\ufffd", "ab", True),
        ("\ufffd", "\ufffd", False),
        ("⟨80⟩", "⟨81⟩", True),
    ],
)
def test_texts_of_an_earlier_release_are_the_same_up_to_its_first_piece_of_a_character(path: Path, there: str, here: str, is_other: bool) -> None:
    with duckdb.connect() as con:
        assert con.execute(f"SELECT {differ('$there', '$here')}", {"there": there, "here": here}).fetchall() == [(is_other,)]
    # the first of its document, with no text before it
    change(COLLECTIONS.path(path), f"UPDATE collection_member SET text = '{there}', position_id = 0 WHERE kind = 'position'")
    change(path, f"UPDATE token SET text = '{here}' WHERE token_id = (SELECT p.token_id FROM position AS p WHERE p.position_id = 0)")
    with atlas.open(path) as a:
        assert a.sql("SELECT m.text FROM collections.collection_member AS m WHERE m.kind = 'position'").height == (not is_other)


def test_rows_that_wait_for_a_parent_are_not_taken_for_a_new_ones(path: Path) -> None:
    """A stranger's rows of the next id, in each file whose rows hang on others."""
    with closing(open_writer(ANNOTATIONS.path(path))) as con:
        (annotation_id,) = con.execute("SELECT max(annotation_id) + 1 FROM annotation").fetchall()[0]
        con.execute("INSERT INTO pattern VALUES (1000, ?, 'semantic', 'a stranger says')", [annotation_id])
        con.execute("INSERT INTO pattern_match SELECT 1001, r.range FROM range(1, 3) AS r")
    with closing(open_writer(COLLECTIONS.path(path))) as con:
        (collection_id,) = con.execute("SELECT max(collection_id) + 1 FROM collection").fetchall()[0]
        con.execute("INSERT INTO collection_member SELECT m.* REPLACE (? AS collection_id) FROM collection_member AS m", [collection_id])
    with atlas.open(path) as a:
        key = Address("key", 0, 0, 1)
        ranks = tuple(item.rank for item in read_shown_items(a.con, [key])[key])
        assert add(a.con, path, key, "zoe", Pattern("shallow", "hers", ranks)) == 1
        assert keeping.add(a.con, path, "hers", [members.position(2)], by="zoe") == (1, 0)
    with atlas.open(path) as a:
        assert a.sql(
            "SELECT p.description, m.rank FROM annotations.annotation JOIN annotations.pattern AS p USING (annotation_id) "
            "JOIN annotations.pattern_match AS m USING (pattern_id) WHERE annotator = 'zoe'"
        ).rows() == [("hers", rank) for rank in ranks]
        assert a.in_collection("hers").height == 1


def test_a_model_that_a_file_holds_many_times_is_not_joined_as_often(path: Path) -> None:
    """10,000,000,000 pairs, which would not end, where both files hold a row 100,000 times."""
    many = 100_000
    with closing(open_writer(path)) as con:
        con.execute(f"INSERT INTO model SELECT m.* FROM (FROM model LIMIT 1) AS m, range({many})")
    with closing(open_writer(ANNOTATIONS.path(path))) as con:
        con.execute(
            f"INSERT INTO annotation SELECT m.* REPLACE ((1000 + r.range)::INTEGER AS annotation_id) FROM (FROM annotation LIMIT 1) AS m, range({many}) AS r"
        )
    with atlas.open(path) as a:
        assert a.sql("SELECT count(*) FROM annotations.annotation").item() == many + len(LOOKS)

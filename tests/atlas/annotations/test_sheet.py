"""A sheet goes out and comes back: what is in it, what is drawn, and that nothing in it is changed or run on the way."""

import csv
import io
import shutil
from contextlib import closing
from pathlib import Path

import pytest

import atlas
from atlas import AtlasError
from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.annotations.adding import add
from atlas.beside.annotations.keeping import insert, patterns_of
from atlas.beside.annotations.reading import parse
from atlas.beside.annotations.sheet import COLUMNS, sheet
from atlas.beside.annotations.steps import load, make_sheet, stale_items
from atlas.beside.annotations.subjects import SUBJECTS, Address, Annotation, Pattern, read_shown_items, sample
from schema.open.change import change_companion, change_companion_with_atlas
from schema.open.store import open_writer

KEY = Address("key", 2, 0, 0)


def cells_of(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))


@pytest.mark.thorough
def test_a_sheet_of_keys_shows_their_texts(a: atlas.Atlas) -> None:
    rows = cells_of(make_sheet(a.con, a.path, "key", 4, 0, 0, None)[0])
    assert [row[0][:2] for row in rows[:6]] == ["# "] * 6
    assert tuple(rows[6]) == COLUMNS
    of_l0n1 = [row for row in rows if row[:3] == ["key", "0", "1"]]
    assert of_l0n1 == [
        # p2, of rank 3, is of the sequence of p3
        ["key", "0", "1", "0", "1", "p3", "The cat« sat»", "«.»", "first.txt", "year: 1790; 1 more in this sequence", "", "a", "", ""],
        ["key", "0", "1", "0", "2", "p9", "The dog« sat»", "", "first.txt", "year: 1790", "", "b", "", ""],
    ]


OF_TINY = Address("key", 0, 0, 1)
"""Three texts, of which ranks 1 and 3 are of one sequence."""


@pytest.mark.thorough
def test_a_sheet_that_an_earlier_release_made_with_every_text_is_loaded(tiny_atlas: Path, tmp_path: Path) -> None:
    made = tmp_path / "earlier.csv"
    with atlas.open(tiny_atlas) as a:
        rows = cells_of(sheet("key", read_shown_items(a.con, [OF_TINY], every=True), {}))
    block = [row for row in rows if row[:1] == ["key"]]
    assert [row[4] for row in block] == ["1", "2", "3"]
    block[0][12:] = ["shallow", "sits"]
    for row in block:
        row[10] = "a"
    for kept, fault in ((block, None), ([block[0], block[2]], "lacks rank 2: keep every row")):
        with made.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([list(COLUMNS), *kept])
        with atlas.open(tiny_atlas) as a:
            if fault:
                with pytest.raises(AtlasError, match=fault):
                    load(a.con, tiny_atlas, made, "bert", is_replacing=False)
            else:
                assert load(a.con, tiny_atlas, made, "anna", is_replacing=False) == (1, 0, 0)
    with atlas.open(tiny_atlas) as a:
        assert patterns_of(a.con, "anna") == {OF_TINY: (Pattern("shallow", "sits", (1, 2, 3)),)}
        assert list(stale_items(a.con)) == []
        # out again it has all three texts, with the letter beside each
        again = cells_of(make_sheet(a.con, a.path, "key", 4, 0, 0, "anna")[0])
        assert [(row[4], row[10]) for row in again if row[:3] == ["key", "0", "1"]] == [("1", "a"), ("2", "a"), ("3", "a")]


def test_a_form_adds_to_what_was_said_of_every_text(tiny_atlas: Path) -> None:
    with atlas.open(tiny_atlas) as a:
        every = read_shown_items(a.con, [OF_TINY], every=True)[OF_TINY]
        assert [item.rank for item in read_shown_items(a.con, [OF_TINY])[OF_TINY]] == [1, 2]
        with change_companion_with_atlas(ANNOTATIONS, tiny_atlas) as (writer, _):
            insert(writer, [Annotation(OF_TINY, every, (Pattern("shallow", "sits", (1, 2, 3)),))], "anna", "ww")
    with atlas.open(tiny_atlas) as a:
        assert add(a.con, tiny_atlas, OF_TINY, "anna", None) == 1
    with atlas.open(tiny_atlas) as a:
        assert a.sql("SELECT n_items FROM annotations.annotation").rows() == [(3,)]


@pytest.fixture
def tiny_atlas(tiny_path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(tiny_path, tmp_path / "tiny.duckdb"))


def test_a_sheet_of_vectors_shows_their_tokens(a: atlas.Atlas) -> None:
    found = {s: [row for row in cells_of(make_sheet(a.con, a.path, s, 4, 0, None, None)[0]) if row[:3] == [s, "1", "0"]] for s in ("value", "random_vector")}
    assert [(row[4], row[5], row[6]) for row in found["value"]] == [("1", "2", "« cat»"), ("2", "10", "« dog»")]
    assert [(row[4], row[5], row[6]) for row in found["random_vector"]] == [("1", "4", "«cat»"), ("2", "7", "« *»")]
    updates = [row for row in cells_of(make_sheet(a.con, a.path, "ffn_update", 4, 0, 0, None)[0]) if row[:3] == ["ffn_update", "1", "p8"]]
    assert [row[3:7] for row in updates] == [["0", "1", "5", "«.»"], ["0", "2", "9", "«↵»"]]


def test_the_sample_rests_on_seed_and_address_alone(a: atlas.Atlas) -> None:
    # md5 of 'seed:layer:neuron', the smallest of each layer; from `printf 0:0:N | md5sum` and so on
    assert [(x.layer, x.item) for x in sample(a.con, a.path, SUBJECTS["value"], 1, 0, None)] == [(0, 1), (1, 0), (2, 0)]
    assert sample(a.con, a.path, SUBJECTS["key"], 2, 0, 0) != sample(a.con, a.path, SUBJECTS["key"], 2, 1, 0)
    assert [(x.layer, x.item) for x in sample(a.con, a.path, SUBJECTS["key"], 2, 3, 0)] == [
        (x.layer, x.item) for x in sample(a.con, a.path, SUBJECTS["value"], 2, 3, None)
    ]


def reorder_triggers(path: Path) -> None:
    """Another sweep: of the 8 texts of L0N0 ranks 1 and 2 change places, 3 is gone, and a text that was not shown before is the fourth."""
    with closing(open_writer(path)) as con:
        con.execute(
            "UPDATE trigger SET rank = CASE rank WHEN 1 THEN 2 WHEN 2 THEN 1 ELSE rank END WHERE corpus_id = 2 AND layer = 0 AND neuron = 0 AND tail = 'max'"
        )
        con.execute("UPDATE trigger SET position_id = 3 WHERE corpus_id = 2 AND layer = 0 AND neuron = 0 AND tail = 'max' AND rank = 3")


def test_letters_stand_beside_the_texts_that_they_were_said_of_whatever_their_ranks_are_now(nasty_path: Path, tmp_path: Path) -> None:
    with atlas.open(nasty_path) as a:
        items = read_shown_items(a.con, [KEY])[KEY]
        with change_companion(ANNOTATIONS, nasty_path) as writer:
            insert(writer, [Annotation(KEY, items, (Pattern("shallow", "first", (1, 3, 4)), Pattern("semantic", "second", (2, 5, 6, 8))))], "anna", "ww")
    reorder_triggers(nasty_path)
    with atlas.open(nasty_path) as a:
        data, notes = make_sheet(a.con, a.path, "key", 4, 0, 2, "anna")
    letters = {row[5]: row[10] for row in cells_of(data) if row[:3] == ["key", "0", "0"]}
    assert [letters[f"p{items[rank - 1].id}"] for rank in (1, 2, 4, 5, 6, 7, 8)] == ["a", "b", "a", "b", "b", "", "b"]
    assert letters["p3"] == ""
    assert notes == [
        "2 texts that patterns explain have other ranks than when they were annotated: their letters have moved with them",
        "1 texts that patterns explained are not shown any more, so their letters are left out",
        "1 patterns explain fewer than 3 of the texts that are shown: complete them, or delete their kind and description",
    ]


@pytest.mark.parametrize(
    ("subject", "corpus", "message"),
    [("key", None, "which corpus.*one of 0, 1"), ("key", 5, "no keys of corpus 5; these corpora have some: 0, 1"), ("ffn_update", 1, "no updates of corpus 1")],
)
def test_a_corpus_that_is_not_there_is_said(a: atlas.Atlas, subject: str, corpus: int | None, message: str) -> None:
    with pytest.raises(AtlasError, match=message):
        make_sheet(a.con, a.path, subject, 1, 0, corpus, None)


def test_an_atlas_without_triggers_says_what_makes_them(empty_path: Path) -> None:
    with atlas.open(empty_path) as a, pytest.raises(AtlasError, match="no triggers: `atlas ingest"):
        make_sheet(a.con, a.path, "key", 1, 0, None, None)


def test_no_cell_can_run(nasty_path: Path) -> None:
    with atlas.open(nasty_path) as a:
        rows = cells_of(make_sheet(a.con, a.path, "key", 1, 0, 2, None)[0])
    assert not [cell for row in rows for cell in row if cell.lstrip()[:1] in ("=", "+", "-", "@")]
    shown = [row[6] for row in rows if row[:1] == ["key"]]
    assert shown == [
        "«=1+1»",
        """'=1+1« "q",»""",
        """'=1+1 "q",«→»""",
        """'=1+1 "q",→«漢»""",
        """'=1+1 "q",→漢«🙂»""",
        """'=1+1 "q",→漢🙂«↵»""",
        """'=1+1 "q",→漢🙂↵«*x»""",
        """'=1+1 "q",→漢🙂↵*x«007»""",
    ]


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_nasty_cells_come_back_exactly(nasty_path: Path, separator: str) -> None:
    """As a spreadsheet program saves it: other quoting, its own separator, a pattern with every nasty character."""
    patterns = (Pattern("shallow", "=cmd|' /C calc'!A0", (1, 2, 3)), Pattern("semantic", 'two\nlines, "quoted"; 漢字 🙂 *', (3, 6, 8)))
    sheet = nasty_path.with_name("filled.csv")
    with atlas.open(nasty_path) as a:
        rows = cells_of(make_sheet(a.con, a.path, "key", 1, 0, 2, None)[0])
        fill(rows, ["a", "a", "ab", "", "", "B", "", "b"], [(p.kind, p.description) for p in patterns])
        out = io.StringIO()
        csv.writer(out, delimiter=separator, lineterminator="\n").writerows(rows)
        sheet.write_text(out.getvalue(), encoding="utf-8", newline="")
        assert load(a.con, nasty_path, sheet, "anna", is_replacing=False) == (1, 0, 0)
    with atlas.open(nasty_path) as a:
        assert patterns_of(a.con, "anna") == {KEY: patterns}
        kept = a.sql("SELECT i.token, i.text_before FROM annotations.annotation_item AS i WHERE i.rank IN (1, 2, 3, 8) ORDER BY i.rank").rows()
        assert kept == [("=1+1", ""), (' "q",', "=1+1"), ("\t", '=1+1 "q",'), ("007", '=1+1 "q",\t漢🙂\n*x')]
        # and out again, filled in, and in again
        again = nasty_path.with_name("again.csv")
        again.write_bytes(make_sheet(a.con, a.path, "key", 1, 0, 2, "anna")[0])
        assert load(a.con, nasty_path, again, "bert", is_replacing=False) == (1, 0, 0)
    with atlas.open(nasty_path) as a:
        assert patterns_of(a.con, "bert") == {KEY: patterns}


def fill(rows: list[list[str]], explained_by: list[str], described: list[tuple[str, str]]) -> None:
    block = [row for row in rows if row[:1] == ["key"]]
    for row, letters in zip(block, explained_by, strict=True):
        row[10] = letters
    for row, (kind, description) in zip(block, described, strict=False):
        row[12:] = [kind, description if description[0] != "=" else f"'{description}"]


def test_rows_are_numbered_as_a_spreadsheet_numbers_them() -> None:
    heading = ",".join(COLUMNS)
    rows = parse(f'"# say\nhow"\n{heading}\n,,,\nkey,0,1\n\n"key\n",0,2', Path("x.csv"))
    assert [(row.number, row["item"], row["kind"]) for row in rows] == [(4, "1", ""), (6, "2", "")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\n1,2\n", "is not a sheet of .*: its heading has no subject, layer, item"),
        (",".join(COLUMNS).encode(), "has no rows to load"),
        (b"", "has no rows to load"),
        ("ä,b".encode("latin-1"), "is not UTF-8"),
        (b"PK\x03\x04\xff", "is not UTF-8"),
    ],
)
def test_what_is_no_sheet_is_refused(a: atlas.Atlas, tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    with pytest.raises(AtlasError, match=message):
        load(a.con, a.path, path, "anna", is_replacing=False)
    with pytest.raises(AtlasError, match="cannot read .*none.csv: No such file"):
        load(a.con, a.path, tmp_path / "none.csv", "anna", is_replacing=False)

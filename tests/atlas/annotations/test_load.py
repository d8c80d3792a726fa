"""What a sheet may say: the papers' rules, and the atlas's own texts; every refusal names its row, and leaves everything as it was.

The sheet of these tests, rows as a spreadsheet numbers them:

    8-15    key L0N0 of corpus 2, ranks 1-8 (nasty_atlas.py)
    16      empty
    17-24   value L0N0, ranks 1-8
"""

import csv
import os
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import atlas
from atlas import AtlasError
from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.annotations.keeping import patterns_of
from atlas.beside.annotations.reading import read_sheet
from atlas.beside.annotations.sheet import COLUMNS, sheet
from atlas.beside.annotations.steps import load, make_sheet
from atlas.beside.annotations.subjects import Address, Pattern, read_shown_items
from schema.open.change import change_companion
from schema.open.store import open_writer
from tests.atlas.companions import broken

KEY, VALUE = Address("key", 2, 0, 0), Address("value", None, 0, 0)
GOOD = {
    (8, "kind"): "shallow",
    (8, "description"): "first",
    **{(row, "explained_by"): "a" for row in (8, 9, 10)},
    (18, "kind"): "Names",
    (18, "description"): "of things",
    **{(row, "explained_by"): "b" for row in (17, 18, 19, 24)},
}
Change = dict[tuple[int, str], str]


@pytest.fixture
def path(nasty_path: Path) -> Path:
    return nasty_path


@pytest.fixture
def load_sheet(path: Path, tmp_path: Path) -> Callable[..., tuple[int, int]]:
    """Load the sheet of these tests with these cells changed, and these rows left out or written twice."""

    def loaded(
        cells: Change, *, without: tuple[int, ...] = (), twice: tuple[int, ...] = (), annotator: str = "anna", is_replacing: bool = False
    ) -> tuple[int, int]:
        target = tmp_path / "sheet.csv"
        with atlas.open(path) as a:
            found = read_shown_items(a.con, [KEY, VALUE])
            lines = sheet("key", found, {}).decode("utf-8-sig").splitlines()
            rows = [list(row) for row in csv.reader(lines)]
            for (number, column), cell in cells.items():
                rows[number - 1][COLUMNS.index(column)] = cell
            kept = [row for number, row in enumerate(rows, start=1) if number not in without]
            with target.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([*kept, *(rows[number - 1] for number in twice)])
            return load(a.con, path, target, annotator, is_replacing=is_replacing)

    return loaded


def kept(path: Path, annotator: str = "anna") -> dict[Address, tuple[Pattern, ...]]:
    with atlas.open(path) as a:
        return patterns_of(a.con, annotator)


@pytest.mark.thorough
def test_a_good_sheet_is_kept(path: Path, load_sheet) -> None:
    assert load_sheet(GOOD) == (2, 0, 0)
    assert broken(path, ANNOTATIONS) == []
    assert kept(path) == {KEY: (Pattern("shallow", "first", (1, 2, 3)),), VALUE: (Pattern("names", "of things", (1, 2, 3, 8)),)}
    with atlas.open(path) as a:
        look = a.sql(
            "SELECT annotation_id, subject, corpus_id, layer, item, n_items, annotator, is_proposed, weights_sha256 FROM annotations.annotation"
        ).rows()
        assert look == [(0, "key", 2, 0, 0, 8, "anna", False, "ww"), (1, "value", None, 0, 0, 8, "anna", False, "ww")]
        joined = a.sql(
            "SELECT t.position_id, p.description FROM trigger AS t "
            "INNER JOIN annotations.annotation AS l ON t.corpus_id = l.corpus_id AND t.layer = l.layer AND t.neuron = l.item AND l.subject = 'key' "
            "INNER JOIN annotations.annotation_item AS i ON l.annotation_id = i.annotation_id AND t.position_id = i.position_id "
            "INNER JOIN annotations.pattern AS p ON l.annotation_id = p.annotation_id "
            "INNER JOIN annotations.pattern_match AS m ON p.pattern_id = m.pattern_id AND i.rank = m.rank WHERE t.tail = 'max' ORDER BY ALL"
        )
        assert joined.rows() == [(200, "first"), (201, "first"), (202, "first")]


@pytest.mark.thorough
def test_empty_blocks_were_not_looked_at_and_none_means_that_they_were(path: Path, load_sheet) -> None:
    of_key = {place: cell for place, cell in GOOD.items() if place[0] < 16}
    assert load_sheet(of_key) == (1, 1, 0)
    assert set(kept(path)) == {KEY}
    assert load_sheet({(17, "kind"): "none"}, annotator="bert") == (1, 1, 0)
    assert kept(path, "bert") == {VALUE: ()}
    assert load_sheet(of_key, without=tuple(range(17, 25)), annotator="carl") == (1, 0, 0)
    # what anna said of the key stays
    assert load_sheet({(17, "kind"): "none"}, is_replacing=True) == (1, 1, 1)
    assert set(kept(path)) == {KEY, VALUE}


REFUSALS: list[tuple[str, Change, str]] = [
    ("3 prefixes", {(10, "explained_by"): ""}, "row 8: pattern a of key L0N0 of corpus 2 explains 2 texts; the rule is at least 3"),
    ("4 tokens", {(24, "explained_by"): ""}, "row 18: pattern b of value L0N0 explains 3 tokens; the rule is at least 4"),
    ("no description", {(8, "description"): "  "}, "row 8: pattern a of key L0N0 of corpus 2 has a kind and no description"),
    ("no kind", {(8, "kind"): ""}, "row 8: a description without a kind"),
    ("kind of values", {(8, "kind"): "names"}, "row 8: no kind 'names' for a key; available: shallow, semantic"),
    ("kind of keys", {(18, "kind"): "shallow"}, "row 18: no kind 'shallow' for a value; available: semantic, syntactic, names"),
    ("unknown letter", {(9, "explained_by"): "ac"}, "row 9: explained_by has 'c', but no row of key L0N0 of corpus 2 with that letter"),
    ("a number for a letter", {(9, "explained_by"): "1"}, "row 9: explained_by has '1'"),
    ("letter twice", {(9, "pattern"): "a", (9, "kind"): "shallow", (9, "description"): "x"}, "row 9: letter a of key .* is used in row 8 already"),
    ("no letter", {(8, "pattern"): ""}, "row 8: the column pattern must have one letter here, not ''"),
    ("none and a pattern", {(12, "kind"): "none"}, "row 12: kind is none, but key L0N0 of corpus 2 has a pattern"),
    ("unknown subject", {(8, "subject"): "head"}, "row 8: no subject 'head'; available: key, value, random_vector, ffn_update"),
    ("no number", {(9, "layer"): "1.5"}, "row 9: layer must be a whole number, not '1.5'"),
    ("a number without end", {(9, "item"): "1" * 5_000}, f"row 9: item must be a whole number of at most 9 digits, not '{'1' * 40}'"),
    ("a number beyond DuckDB's", {(9, "corpus"): "1" * 10}, "row 9: corpus must be a whole number of at most 9 digits, not '1111111111'"),
    ("a corpus is missing", {(9, "corpus"): ""}, "row 9: corpus must be a whole number, not ''"),
    ("no such key", dict.fromkeys([(r, "item") for r in range(8, 16)], "9"), "row 8: this atlas has no key L0N9 of corpus 2"),
    ("another text", {(9, "text"): "The« cat»"}, "row 9: rank 2 of key L0N0 of corpus 2 is not what this atlas shows: it shows 201"),
    ("another position", {(9, "id"): "3"}, "row 9: rank 2 of key L0N0 of corpus 2 is not what this atlas shows"),
    ("another token", {(20, "text"): "«x»"}, "row 20: rank 4 of value L0N0 is not what this atlas shows: it shows 23, «漢»"),
    ("rank that is not there", {(9, "rank"): "26"}, "row 9: rank 26 of key L0N0 of corpus 2 is not what this atlas shows: it shows nothing there"),
]


@pytest.mark.ci_cases(12)
@pytest.mark.first_cases(8)
@pytest.mark.parametrize(("cells", "message"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_a_broken_rule_is_refused_with_its_row_and_changes_nothing(path: Path, load_sheet, cells: Change, message: str) -> None:
    with pytest.raises(AtlasError, match=message) as error:
        load_sheet({**GOOD, **cells})
    assert "was not loaded, and nothing has changed" in str(error.value)
    assert not ANNOTATIONS.path(path).exists()
    assert kept(path) == {}


def test_rows_must_be_there_once(load_sheet) -> None:
    with pytest.raises(AtlasError, match="row 8: key L0N0 of corpus 2 lacks rank 5: keep every row"):
        load_sheet(GOOD, without=(12,))
    with pytest.raises(AtlasError, match="row 26: rank 2 of key L0N0 of corpus 2 stands in row 9 already"):
        load_sheet(GOOD, twice=(9,))


AS_PEOPLE_EDIT = {
    "positions as Excel rounds them": {(row, "id"): "1.09951E+12" for row in range(8, 16)},
    "positions of sheets before they were text": {(row, "id"): str(192 + row) for row in range(8, 16)},
    "words and signs between letters": {(8, "explained_by"): "a, and b", (9, "explained_by"): "a & b", (10, "explained_by"): " A and b\n"}
    | {(11, "kind"): "semantic", (11, "description"): "other", (11, "pattern"): "B"},
}


@pytest.mark.parametrize("cells", AS_PEOPLE_EDIT.values(), ids=AS_PEOPLE_EDIT)
def test_a_sheet_is_read_as_people_and_spreadsheets_leave_it(path: Path, load_sheet, cells: Change) -> None:
    assert load_sheet({**GOOD, **cells}) == (2, 0, 0)
    assert {pattern.ranks for pattern in kept(path)[KEY]} == {(1, 2, 3)}
    assert len(kept(path)[KEY]) == (2 if (11, "kind") in cells else 1)


def test_a_line_that_tells_excel_the_separator_is_none_of_the_heading(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "sheet.csv"
    with atlas.open(path) as a:
        rows = list(csv.reader(sheet("key", read_shown_items(a.con, [KEY]), {}).decode("utf-8-sig").splitlines()))
    rows[7][COLUMNS.index("kind")] = "none"
    with target.open("w", encoding="utf-8-sig", newline="") as file:
        file.write("sep=;\r\n")
        csv.writer(file, delimiter=";").writerows(rows)
    found = read_sheet(target)
    assert [row["rank"] for row in found] == [str(rank) for rank in range(1, 9)]
    assert (found[0].number, found[0]["kind"]) == (9, "none")


def test_a_rounded_position_that_alone_says_which_update_is_meant_is_refused_in_a_line(load_sheet) -> None:
    changed = {(row, "subject"): "ffn_update" for row in range(8, 16)} | {(row, "item"): "1,09951E+12" for row in range(8, 16)}
    with pytest.raises(AtlasError) as error:
        load_sheet({**GOOD, **changed})
    said = "row 8: item is 1,09951E+12: a spreadsheet has rounded the position. Make the sheet again: its positions are then text"
    assert str(error.value).splitlines()[1].strip() == said


@pytest.mark.parametrize("column", ["subject", "layer", "rank", "id", "text", "explained_by", "kind"])
def test_a_line_break_within_a_cell_breaks_no_line_of_an_error(load_sheet, column: str) -> None:
    with pytest.raises(AtlasError) as error:
        load_sheet({**GOOD, (9, column): "x\ny\r\nz"})
    first, *lines = str(error.value).splitlines()
    assert "was not loaded" in first and lines
    assert all(re.match(r"  row \d+: ", line) for line in lines)


def test_a_long_cell_makes_no_long_error(load_sheet) -> None:
    with pytest.raises(AtlasError) as error:
        load_sheet({**GOOD, (9, "kind"): "x" * 100_000, (10, "explained_by"): " ".join(map(chr, range(0x4E00, 0x5E00)))})
    assert all(len(line) < 600 for line in str(error.value).splitlines())


def test_what_a_terminal_would_obey_is_shown(load_sheet) -> None:
    with pytest.raises(AtlasError, match=r"row 9: explained_by has '\\x07, \\x1b'"):
        load_sheet({**GOOD, (9, "explained_by"): "a\x1b\x07"})


@pytest.mark.thorough
def test_every_fault_is_named(load_sheet) -> None:
    with pytest.raises(AtlasError) as error:
        load_sheet({**GOOD, (10, "explained_by"): "", (24, "explained_by"): "", (20, "kind"): "odd"})
    assert [line.split(":")[0].strip() for line in str(error.value).splitlines()[1:]] == ["row 8", "row 18", "row 20"]
    wrong = {(row, column): "xy" for row in range(8, 25) if row != 16 for column in ("explained_by", "kind")}
    with pytest.raises(AtlasError) as error:
        load_sheet(wrong)
    lines = str(error.value).splitlines()
    assert "row 8: explained_by has 'x, y', but no row of key L0N0 of corpus 2" in str(error.value)
    assert (len(lines), lines[-1].strip()) == (22, "and 12 more")


@pytest.mark.thorough
def test_the_order_of_rows_is_no_matter(path: Path, load_sheet) -> None:
    assert load_sheet(GOOD, without=(8,), twice=(8,)) == (2, 0, 0)
    assert kept(path)[KEY] == (Pattern("shallow", "first", (1, 2, 3)),)


@pytest.mark.thorough
def test_the_same_annotator_replaces_only_when_asked(path: Path, load_sheet) -> None:
    load_sheet(GOOD)
    load_sheet(GOOD, annotator="bert")
    before = ANNOTATIONS.path(path).read_bytes()
    changed = {**GOOD, (8, "description"): "second"}
    with pytest.raises(AtlasError, match="row 8: anna has annotated key L0N0 of corpus 2 already; --replace"):
        load_sheet(changed)
    assert ANNOTATIONS.path(path).read_bytes() == before
    assert load_sheet(changed, without=tuple(range(17, 25)), is_replacing=True) == (1, 0, 0)
    assert kept(path) == {KEY: (Pattern("shallow", "second", (1, 2, 3)),), VALUE: (Pattern("names", "of things", (1, 2, 3, 8)),)}
    assert kept(path, "bert")[KEY][0].description == "first"
    with atlas.open(path) as a:
        assert a.sql("SELECT count(*) FROM annotations.annotation_item").item() == 4 * 8
        assert a.sql("SELECT count(*) FROM annotations.pattern_match").item() == 2 * (3 + 4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("miner", "proposals are stored under it"),
        ("MINER", "proposals are stored under it"),
        (" ", "' ' cannot name a person: a name has 1 to 60 letters"),
        ("x" * 61, "cannot name a person"),
        ("anna\nbert", r"'anna\\nbert' cannot name a person"),
        ("\x1b[31manna", r"'\\x1b\[31manna' cannot name a person"),
    ],
)
def test_an_annotator_has_a_name_of_her_own(path: Path, load_sheet, name: str, message: str) -> None:
    with pytest.raises(AtlasError, match=message):
        load_sheet(GOOD, annotator=name)
    assert not ANNOTATIONS.path(path).exists()


@pytest.mark.thorough
def test_names_that_differ_in_case_alone_are_one_persons(path: Path, load_sheet) -> None:
    load_sheet(GOOD, annotator="Ada")
    with pytest.raises(AtlasError, match="row 8: Ada has annotated key L0N0 of corpus 2 already"):
        load_sheet(GOOD, annotator="ada")
    assert load_sheet({**GOOD, (8, "description"): "second"}, annotator="ADA", is_replacing=True) == (2, 0, 0)
    with atlas.open(path) as a:
        assert a.sql("SELECT DISTINCT annotator FROM annotations.annotation").rows() == [("Ada",)]
        assert a.geva2021_fig2(annotator="aDA")["n_keys"].to_list() == [1]
        assert b"second" in make_sheet(a.con, a.path, "key", 1, 0, 2, "aDa")[0]
        assert a.annotated_patterns(annotator="ada")["description"].to_list() == ["second", "of things"]


@pytest.mark.parametrize("name", ["anna@example.org", "Nuala O'Brien", "Zoë (2nd)"])
def test_an_address_and_names_of_people_are_names_of_annotators(path: Path, load_sheet, name: str) -> None:
    assert load_sheet(GOOD, annotator=name) == (2, 0, 0)
    assert kept(path, name)[KEY][0].description == "first"


@pytest.mark.thorough
def test_what_was_said_of_another_model_is_neither_in_the_way_nor_replaced(path: Path, load_sheet) -> None:
    load_sheet(GOOD)
    with change_companion(ANNOTATIONS, path) as writer:
        writer.execute("UPDATE annotations.annotation SET weights_sha256 = 'other'")
    assert kept(path) == {}
    assert load_sheet({**GOOD, (8, "description"): "second"}) == (2, 0, 0)
    assert load_sheet({**GOOD, (8, "description"): "third"}, is_replacing=True) == (2, 0, 0)
    assert kept(path)[KEY][0].description == "third"
    with closing(open_writer(ANNOTATIONS.path(path))) as con:
        said = "SELECT a.weights_sha256, p.description FROM pattern AS p INNER JOIN annotation AS a USING (annotation_id) WHERE a.subject = 'key' ORDER BY ALL"
        assert con.execute(said).fetchall() == [("other", "first"), ("ww", "third")]


@pytest.mark.thorough
def test_whoever_has_annotated_under_a_name_that_is_allowed_no_longer_goes_on_under_it(path: Path, load_sheet) -> None:
    load_sheet(GOOD)
    with change_companion(ANNOTATIONS, path) as writer:
        writer.execute("UPDATE annotations.annotation SET annotator = 'anna/bert'")
    assert kept(path, "anna/bert")[KEY][0].description == "first"
    assert load_sheet({**GOOD, (8, "description"): "second"}, annotator="anna/bert", is_replacing=True) == (2, 0, 0)
    assert kept(path, "anna/bert")[KEY][0].description == "second"


def test_a_sheet_with_nothing_filled_in_is_said(path: Path, load_sheet) -> None:
    with pytest.raises(AtlasError, match="has nothing filled in; its first rows say how"):
        load_sheet({})
    assert not ANNOTATIONS.path(path).exists()


def test_a_sheet_is_a_file_of_bounded_size(tmp_path: Path) -> None:
    pipe, huge = tmp_path / "pipe.csv", tmp_path / "huge.csv"
    os.mkfifo(pipe)
    with pytest.raises(AtlasError, match="it is no file"):
        read_sheet(pipe)
    with huge.open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(AtlasError, match="it has 65 MB, and a sheet has at most 64"):
        read_sheet(huge)

"""What the miner proposes, on texts whose patterns a pencil finds; and that no figure takes it for a person's."""

import shutil
from pathlib import Path

import pytest

import atlas
from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.annotations.keeping import MINER, patterns_of
from atlas.beside.annotations.mining import chance, metadata_shares, proposals
from atlas.beside.annotations.steps import load, make_sheet, propose
from atlas.beside.annotations.subjects import Address, Pattern, ShownItem
from schema.open import store
from tests.atlas.companions import broken


def text(rank: int, before: str, token: str, metadata: str = "{}") -> ShownItem:
    return ShownItem(rank, rank, 0, False, before, token, None, "d", metadata)


def test_endings_that_three_texts_share_are_shallow_patterns() -> None:
    items = [text(1, "the end of", " the"), text(2, "in spite of", " the"), text(3, "out of", " the"), text(4, "Give", " The"), text(5, "one", " dog")]
    assert proposals(items, {}) == (Pattern("shallow", "ends with “the”", (1, 2, 3, 4)), Pattern("shallow", "ends with “of the”", (1, 2, 3)))


def test_of_endings_of_the_same_texts_the_longest_is_named() -> None:
    items = [text(i, f"{word} on the State of the", " Union") for i, word in enumerate(("address", "message", "speech"), start=1)]
    # five words are shared, four are named; a partial first word cannot count
    assert proposals(items, {}) == (Pattern("shallow", "ends with “state of the union”", (1, 2, 3)),)
    cut = [text(i, f"{'x' * 76}g of", " the") for i in (1, 2, 3)]
    assert [len(item.text_before or "") for item in cut] == [80, 80, 80]
    assert proposals(cut, {}) == (Pattern("shallow", "ends with “of the”", (1, 2, 3)),)


def test_beginnings_and_line_breaks_are_endings_too() -> None:
    assert proposals([text(i, "", "<s>") for i in (1, 2, 3)], {}) == (Pattern("shallow", "ends with “<s>”", (1, 2, 3)),)
    assert proposals([text(i, "a.", "\n") for i in (1, 2, 3)], {}) == (Pattern("shallow", "ends with “↵”", (1, 2, 3)),)


def test_two_texts_are_no_pattern() -> None:
    assert proposals([text(1, "x", " the"), text(2, "y", " the"), text(3, "z", " a")], {}) == ()


def test_shared_metadata_is_proposed_where_chance_would_not_share_it() -> None:
    presidents = ["Polk"] * 3 + ["Grant"] * 3
    items = [text(i, "a", f" w{i}", f'{{"president": "{name}", "tags": [1]}}') for i, name in enumerate(presidents, start=1)]
    # 20·0.02³·0.98³ + … = 0.00015 is below one in a thousand, 20·0.1³·0.9³ + … = 0.01585 is not
    shares = {("president", "Polk"): 0.02, ("president", "Grant"): 0.1}
    polk = Pattern("semantic", "documents with president: Polk", (1, 2, 3))
    assert proposals(items, shares) == (polk,)
    # of the facts that the same texts share, the most common
    dated = [text(i, "a", f" w{i}", '{"president": "Polk", "year": 1846}' if i < 4 else "{}") for i in range(1, 7)]
    assert proposals(dated, {**shares, ("year", "1846"): 0.01}) == (polk,)


@pytest.mark.parametrize(("k", "n", "p", "expected"), [(2, 2, 0.5, 0.25), (1, 2, 0.5, 0.75), (0, 5, 0.3, 1.0), (3, 6, 0.1, 0.01585), (3, 3, 1.0, 1.0)])
def test_chance(k: int, n: int, p: float, expected: float) -> None:
    assert chance(k, n, p) == pytest.approx(expected)


@pytest.mark.thorough
def test_shares_are_of_positions(a: atlas.Atlas, nasty_path: Path) -> None:
    assert metadata_shares(a.con, 0) == {("year", "1790"): 1.0}
    assert metadata_shares(a.con, 1) == {}
    con = store.open_writer(nasty_path)
    con.execute("""INSERT INTO document VALUES (201, 2, 'b', '{"kind": "other", "year": 1}', 'xx')""")
    con.execute("INSERT INTO sequence VALUES (201, 201, 208, 2)")
    con.close()
    with atlas.open(nasty_path) as b:
        assert metadata_shares(b.con, 2) == {("kind", "-nasty"): 0.8, ("kind", "other"): 0.2, ("year", "1"): 0.2}


@pytest.fixture
def path(tiny_path: Path, tmp_path: Path) -> Path:
    """The tiny atlas; all three texts of key L0N1 over corpus 0 end with ' sat', and the three of each key are of three sequences."""
    copy = Path(shutil.copy(tiny_path, tmp_path / "tiny.duckdb"))
    con = store.open_writer(copy)
    con.execute("INSERT INTO sequence VALUES (10, 0, 6, 1), (11, 0, 0, 1)")
    con.execute("INSERT INTO position SELECT * REPLACE (10 AS position_id, 10 AS sequence_id) FROM position AS p WHERE p.position_id = 9")
    con.execute("UPDATE position SET sequence_id = 11 WHERE position_id = 2")
    con.execute("UPDATE trigger SET position_id = 10 WHERE corpus_id = 0 AND layer = 0 AND neuron = 1 AND tail = 'max' AND rank = 3")
    con.close()
    return copy


def propose_for(path: Path, per_layer: int) -> int:
    with atlas.open(path) as a:
        return propose(a.con, path, per_layer, 0, 0)


@pytest.mark.thorough
def test_proposals_are_kept_as_proposed_in_the_place_of_earlier_ones(path: Path) -> None:
    assert propose_for(path, 1) == 3
    assert propose_for(path, 4) == 12
    assert broken(path, ANNOTATIONS) == []
    with atlas.open(path) as a:
        found = patterns_of(a.con, MINER)
        assert len(found) == 12
        assert {address: p for address, p in found.items() if p} == {Address("key", 0, 0, 1): (Pattern("shallow", "ends with “sat”", (1, 2, 3)),)}
        assert a.sql("SELECT DISTINCT is_proposed FROM annotations.annotation").rows() == [(True,)]


@pytest.mark.thorough
def test_proposals_are_counted_only_until_a_person_has_annotated(path: Path, tmp_path: Path) -> None:
    propose_for(path, 4)
    columns = ["layer", "annotator_kind", "n_keys", "n_prefixes", "shallow", "uncovered"]
    with atlas.open(path) as a:
        assert a.geva2021_fig2().select(columns).rows()[0] == (0, "proposed", 4, 12, 0.25, 0.75)
        sheet = tmp_path / "sheet.csv"
        text = make_sheet(a.con, a.path, "key", 1, 0, 0, MINER)[0].decode("utf-8-sig")
        # layer 0 draws L0N1, filled in with the proposal, which a person may take over; the two others are left empty
        assert text.count("ends with “sat”") == 1 and text.count("none") == 3
        sheet.write_text(text.replace('"none",""', '"",""'))
        assert load(a.con, path, sheet, "anna", is_replacing=False) == (1, 2, 0)
    with atlas.open(path) as a:
        assert a.geva2021_fig2().select(columns).rows() == [(0, "person", 1, 3, 1.0, 0.0)]
        assert a.geva2021_fig2(annotator=MINER).select(columns).rows()[0] == (0, "proposed", 4, 12, 0.25, 0.75)
        assert a.geva2021_patterns().rows() == [("person", 1, 1, 3, 1.0, 1.0, 0.0, 1.0, 1.0)]
        agreement = a.annotation_agreement().select("annotator", "other_annotator", "other_kind", "n_items", "both_cover").rows()
        assert agreement == [("anna", MINER, "proposed", 3, 1.0)]

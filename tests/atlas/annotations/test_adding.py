"""A pattern from a form: kept beside earlier ones, under the rules of the sheets."""

from pathlib import Path

import pytest

import atlas
from atlas.beside.annotations.adding import add
from atlas.beside.annotations.subjects import Address, Pattern
from schema.errors import AtlasError
from schema.open import store

KEY = Address("key", 2, 0, 0)
"""Eight texts, ranks 1 to 8 (nasty_atlas)."""

FOUND = "FROM annotations.annotated_patterns()"


def kept(path: Path) -> list[tuple]:
    with atlas.open(path) as a:
        return a.sql(f"SELECT subject, layer, item, corpus_id, annotator, kind, description, n_matches, n_items {FOUND}").rows()


@pytest.mark.thorough
def test_patterns_of_several_looks_stand_side_by_side(nasty_path: Path) -> None:
    for n, (annotator, pattern) in enumerate(
        [("anna", Pattern("shallow", "one", (1, 2, 3))), ("anna", Pattern("semantic", "two", (2, 3, 4, 5))), ("bert", Pattern("shallow", "three", (6, 7, 8)))]
    ):
        with atlas.open(nasty_path) as a:
            assert add(a.con, nasty_path, KEY, annotator, pattern) == (1, 2, 1)[n]
    key = ("key", 0, 0, 2)
    assert kept(nasty_path) == [(*key, "anna", "shallow", "one", 3, 8), (*key, "anna", "semantic", "two", 4, 8), (*key, "bert", "shallow", "three", 3, 8)]


def test_a_look_that_found_nothing_is_kept_and_may_find_something_later(nasty_path: Path) -> None:
    with atlas.open(nasty_path) as a:
        assert add(a.con, nasty_path, KEY, "anna", None) == 0
    with atlas.open(nasty_path) as a:
        assert a.sql("SELECT annotator, n_items FROM annotations.annotation").rows() == [("anna", 8)]
        assert add(a.con, nasty_path, KEY, "anna", Pattern("shallow", "one", (1, 2, 3))) == 1
    with atlas.open(nasty_path) as a:
        assert a.sql("SELECT count(*) FROM annotations.annotation").item() == 1


@pytest.mark.parametrize(
    ("address", "annotator", "pattern", "said"),
    [
        (KEY, "anna", Pattern("shallow", "one", (1, 2)), "must explain at least 3 texts, and this one explains 2"),
        (KEY, "anna", Pattern("shallow", "one", (1, 1, 1)), "must explain at least 3 texts, and this one explains 1"),
        (Address("value", None, 0, 0), "anna", Pattern("names", "one", (1, 2, 3)), "must explain at least 4 tokens, and this one explains 3"),
        (KEY, "anna", Pattern("names", "one", (1, 2, 3)), "no kind 'names' for a key; available: shallow, semantic"),
        (KEY, "anna", Pattern("shallow", " ", (1, 2, 3)), "no description"),
        (KEY, "anna", Pattern("shallow", "one", (1, 2, 9)), "no rank 9: it shows ranks 1 to 8"),
        (KEY, "miner", Pattern("shallow", "one", (1, 2, 3)), "cannot be an annotator's name"),
        (Address("key", 2, 0, 3), "anna", Pattern("shallow", "one", (1, 2, 3)), "this atlas has no key L0N3 of corpus 2"),
    ],
)
def test_what_breaks_a_rule_is_refused_and_nothing_is_kept(nasty_path: Path, address: Address, annotator: str, pattern: Pattern, said: str) -> None:
    with atlas.open(nasty_path) as a, pytest.raises(AtlasError, match=said):
        add(a.con, nasty_path, address, annotator, pattern)
    assert kept(nasty_path) == []


def test_a_look_at_other_texts_is_not_mixed_with_this_one(nasty_path: Path) -> None:
    with atlas.open(nasty_path) as a:
        add(a.con, nasty_path, KEY, "anna", Pattern("shallow", "one", (1, 2, 3)))
    con = store.open_writer(nasty_path)
    con.execute("DELETE FROM trigger WHERE corpus_id = 2 AND rank = 8")
    con.close()
    with atlas.open(nasty_path) as a, pytest.raises(AtlasError, match="annotated key L0N0 of corpus 2 when this atlas showed other texts"):
        add(a.con, nasty_path, KEY, "anna", Pattern("shallow", "two", (4, 5, 6)))
    assert [row[6] for row in kept(nasty_path)] == ["one"]

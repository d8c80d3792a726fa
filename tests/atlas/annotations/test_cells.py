"""Cells come back as they were, and none begins like a formula."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.beside.annotations.cells import guarded, marked, unguarded


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-x", "@a", " =1", "\t=1", "＝1", "'=1", "'", "\n", "\rx"])
def test_what_begins_like_a_formula_is_guarded(cell: str) -> None:
    assert guarded(cell) == f"'{cell}"
    assert unguarded(guarded(cell)) == cell


@pytest.mark.parametrize("cell", ["", "the end", " the", "«=»", "a=b", "1790", "*"])
def test_other_cells_are_left_alone(cell: str) -> None:
    assert guarded(cell) == cell


def test_an_apostrophe_that_a_person_types_stays() -> None:
    assert unguarded("'tis") == "'tis"


@pytest.mark.thorough
@settings(deadline=None)
@given(st.text())
def test_any_cell_comes_back(cell: str) -> None:
    assert unguarded(guarded(cell)) == cell
    assert guarded(cell).lstrip()[:1] not in tuple("=+-@＝＋－＠")


def test_a_token_is_marked_and_every_character_of_it_is_seen() -> None:
    assert marked(" cat", "The\n") == "The↵« cat»"
    assert marked("007") == "«007»"

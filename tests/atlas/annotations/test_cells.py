"""Cells come back as they were, and none begins like a formula."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.beside.annotations.cells import guard_cell, mark_token, unguard_cell


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-x", "@a", " =1", "\t=1", "＝1", "'=1", "'", "\n", "\rx"])
def test_what_begins_like_a_formula_is_guarded(cell: str) -> None:
    assert guard_cell(cell) == f"'{cell}"
    assert unguard_cell(guard_cell(cell)) == cell


@pytest.mark.parametrize("cell", ["", "the end", " the", "«=»", "a=b", "1790", "*"])
def test_other_cells_are_left_alone(cell: str) -> None:
    assert guard_cell(cell) == cell


def test_an_apostrophe_that_a_person_types_stays() -> None:
    assert unguard_cell("'tis") == "'tis"


@pytest.mark.thorough
@settings(deadline=None)
@given(st.text())
def test_any_cell_comes_back(cell: str) -> None:
    assert unguard_cell(guard_cell(cell)) == cell
    assert guard_cell(cell).lstrip()[:1] not in tuple("=+-@＝＋－＠")


def test_a_token_is_marked_and_every_character_of_it_is_seen() -> None:
    assert mark_token(" cat", "The\n") == "The↵« cat»"
    assert mark_token("007") == "«007»"

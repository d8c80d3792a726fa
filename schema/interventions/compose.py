"""What an arm does to one cell: a unit of a site, at one position."""

from collections.abc import Iterator
from itertools import pairwise

from schema.errors import AtlasError
from schema.interventions.intervention import Arm, Intervention
from schema.interventions.sites import REPLACING

SAME_CELL = {"pre_activation": "coefficient"}
"""Sites that decide what is at another: whoever sets both sets one in vain."""


def require_one_replacement(arm: Arm, n_prompt: int) -> None:
    """AtlasError where two interventions of a resolved arm put something in the place of one cell, for a prompt of so many tokens."""
    cells: dict[tuple[int | None, str, tuple[int, ...] | None], list[tuple[int, float, Intervention]]] = {}
    for change in arm:
        if change.op in REPLACING:
            cells.setdefault((change.layer, SAME_CELL.get(change.site, change.site), change.units), []).extend(spans(change, n_prompt))
    for found in cells.values():
        found.sort(key=lambda span: span[:2])
        for (_, end, before), (start, _, after) in pairwise(found):
            if start < end:
                raise AtlasError(f"{before.op} and {after.op} both replace {after.where} at position {start}; a cell is replaced once")


def spans(change: Intervention, n_prompt: int) -> Iterator[tuple[int, float, Intervention]]:
    assert change.positions is not None
    for start, end in change.positions.index_ranges(n_prompt):
        yield start, float("inf") if end is None else end, change

"""Positions of a sequence at which an intervention acts, by index. The first P positions are those of the prompt."""

from dataclasses import dataclass
from typing import Any

from schema.errors import AtlasError
from schema.reading import read_whole_number, shorten_json

NAMED = ("all", "prompt", "generated", "last", "predicting")
"""Names of positions; in this order, they mean: all; 0 to P-1; from P on; P-1; from P-1 on. The state at position t predicts the token at t + 1, so a change of
`generated` positions does not affect the first new token."""

Range = tuple[int, int | None]
"""Half-open range of indices; the end is None if there is no end."""


@dataclass(frozen=True)
class Positions:
    """One of NAMED, or ascending ranges with gaps between them. is_first_skipped: whether index 0, where many models have a huge state, is left unchanged."""

    named: str | None
    ranges: tuple[tuple[int, int], ...] = ()
    is_first_skipped: bool = False

    def index_ranges(self, n_prompt: int) -> list[Range]:
        """List the half-open ranges of indices, for a prompt of `n_prompt` tokens."""
        last = n_prompt - 1
        named: dict[str, Range] = {
            "all": (0, None),
            "prompt": (0, n_prompt),
            "generated": (n_prompt, None),
            "last": (last, n_prompt),
            "predicting": (last, None),
        }
        found: list[Range] = list(self.ranges) if self.named is None else [named[self.named]]
        if self.is_first_skipped:
            found = [(max(start, 1), end) for start, end in found if end is None or end > 1]
        return found

    def as_json(self) -> str | list[int | list[int]]:
        return self.named if self.named is not None else [start if end == start + 1 else [start, end] for start, end in self.ranges]


def positions_of(given: Any, is_first_skipped: Any) -> Positions:
    """Read positions: a name, or a list of indices and half-open ranges [first, end]. Raises AtlasError for anything else, and for an empty list."""
    if not isinstance(is_first_skipped, bool):
        raise AtlasError(f"skip_first is {shorten_json(is_first_skipped)}; it must be true or false")
    if isinstance(given, str) and given in NAMED:
        return Positions(given, (), is_first_skipped)
    if not isinstance(given, list) or not given:
        raise AtlasError(f"positions are {shorten_json(given)}; they must be {', '.join(NAMED)}, or a list of indices and half-open ranges such as [4, [6, 9]]")
    return Positions(None, merge_ranges([range_of(item) for item in given]), is_first_skipped)


def range_of(item: Any) -> tuple[int, int]:
    if isinstance(item, list):
        if len(item) != 2:
            raise AtlasError(f"a range of positions is {shorten_json(item)}; it must be [first, end], where end is the index after the last")
        start, end = read_whole_number(item[0], "first position"), read_whole_number(item[1], "end of positions")
        if end <= start:
            raise AtlasError(f"the range of positions {shorten_json(item)} is empty; it must be [first, end], where end is the index after the last")
        return start, end
    start = read_whole_number(item, "position")
    return start, start + 1


def merge_ranges(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge ranges into ascending ones that cover the same indices and neither meet nor overlap."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)

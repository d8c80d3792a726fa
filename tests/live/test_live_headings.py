"""Columns of the arms that a traced prompt is shown under."""

import pytest

from atlas.cli.trace_page import headings

CASES = [
    ([0, 1], ["base", "L1N3=0"], {0: ("base", "base prob"), 1: ("L1N3=0", "L1N3=0 prob")}),
    ([0, 1, 2], ["base", "a", "a"], {0: ("0: base", "0: base prob"), 1: ("1: a", "1: a prob"), 2: ("2: a", "2: a prob")}),
    ([0, 1], ["base", "base prob"], {0: ("0: base", "0: base prob"), 1: ("1: base prob", "1: base prob prob")}),
]


@pytest.mark.parametrize(("arm_ids", "names", "expected"), CASES, ids=("apart", "the same name twice", "a name that is another's column"))
def test_each_arm_has_columns_of_its_own(arm_ids: list[int], names: list[str], expected: dict[int, tuple[str, str]]) -> None:
    assert headings(arm_ids, names) == expected

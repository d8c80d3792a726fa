"""Values are rounded for reading, exact for machines, and every character of a text can be seen."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pytest

from atlas.export.cells import display, display_cells, plain_value, to_json
from atlas.export.visible import visible_line, visible_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "␣the"),
        ("a b", "a b"),
        ("  ", "␣␣"),
        ("x ", "x␣"),
        ("", ""),
        ("\n", "↵"),
        ("a\tb", "a→b"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\r", "\\x0d"),
        ("\u200b", "\\u200b"),
        ("\u202eabc", "\\u202eabc"),
        ("\u00a0x", "\\xa0x"),
        ("\u2028", "\\u2028"),
        ("\U000e0001", "\\U000e0001"),
        ("日本", "日本"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("क्\u200dष", "क्\u200dष"),
        ("👨\u200d👩\u200d👧 🇩🇪", "👨\u200d👩\u200d👧 🇩🇪"),
        ("م\u200c", "م\\u200c"),
        ("\u200dष", "\\u200dष"),
        ("a\u200db", "a\\u200db"),
        ("م\u200c\u200cم", "م\\u200c\\u200cم"),
        ("[red]", "[red]"),
        ("\ufffd", "\ufffd"),
    ],
)
def test_every_character_is_seen(text: str, shown: str) -> None:
    assert visible_text(text) == shown


def test_within_a_line_spaces_stay_spaces() -> None:
    assert visible_line(" a\n") == " a↵"


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([4.0, 0.5], ["4.000", "0.500"]),
        ([0.75, 1e-9, 0.0], ["0.7500", "1.0e-09", "0.0000"]),
        ([1234.5, -1.0], ["1234", "-1"]),
        ([None, float("nan"), float("inf")], ["–", "nan", "inf"]),
        ([0.0], ["0.000"]),
        ([2e-7], ["2.0e-07"]),
    ],
)
def test_floats_of_a_column_are_rounded_together(values: list, shown: list[str]) -> None:
    assert display_cells(pl.Series(values, dtype=pl.Float64)) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (True, "yes"),
        (3, "3"),
        (b"\x00\xff", "00ff"),
        ([" a", "b,c"], "␣a · b,c"),
        ({"k": 0.123456}, "k: 0.1235"),
        (Decimal(12), "12"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02 03:04:05"),
        (date(2026, 1, 2), "2026-01-02"),
    ],
)
def test_any_value_can_be_read(value: object, shown: str) -> None:
    assert display(value) == shown


@pytest.mark.parametrize(
    ("value", "held"),
    [
        (float("nan"), None),
        (float("-inf"), None),
        (b"\x01", "01"),
        (Decimal(38), 38),
        (Decimal("1.5"), 1.5),
        ([1.5, float("inf")], [1.5, None]),
        ({"a": [b"x"]}, {"a": ["78"]}),
        (date(2026, 1, 2), "2026-01-02"),
        (True, True),
    ],
)
def test_json_can_hold_any_value(value: object, held: object) -> None:
    assert plain_value(value) == held
    assert json.loads(to_json(value)) == held

"""Conversion of any value of a result to text for people (rounded, visible) or to a plain value for machines (exact, JSON)."""

import json
import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import polars as pl

from atlas.export.visible import visible_text

NULL = "–"


def display_cells(column: pl.Series, show: Callable[[str], str] = visible_text) -> list[str]:
    """Format the column's values as people read them: floats rounded together, null as a dash; `show` prepares text."""
    if column.dtype.is_float():
        return display_floats(column.to_list())
    return [display(value, show) for value in column.to_list()]


def display(value: object, show: Callable[[str], str] = visible_text) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return show(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, list | tuple):
        return " · ".join(display(v, show) for v in value)
    if isinstance(value, dict):
        return ", ".join(f"{show(str(k))}: {display(v, show)}" for k, v in value.items())
    return show(str(value))


def display_floats(values: list[float | None]) -> list[str]:
    """Format floats: four significant digits for the largest, the same number of decimals for all, and scientific notation if only zeros would be left."""
    decimals = decimals_of(values)

    def one(value: float | None) -> str:
        if value is None:
            return NULL
        is_lost = value != 0 and math.isfinite(value) and abs(value) < 0.5 * 10.0**-decimals
        return f"{value:.1e}" if is_lost else f"{value:.{decimals}f}"

    return [one(v) for v in values]


def decimals_of(values: Sequence[float | None]) -> int:
    """Count the decimals that give the largest value four significant digits, at most six."""
    finite = [abs(v) for v in values if v is not None and math.isfinite(v) and v != 0]
    whole = math.floor(math.log10(max(finite))) if finite else 0
    return min(max(3 - whole, 0), 6)


def plain_value(value: object) -> object:
    """Convert a value to one that JSON can hold: NaN and infinity become null, bytes hexadecimal, times ISO 8601, durations seconds."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list | tuple):
        return [plain_value(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain_value(v) for k, v in value.items()}
    return value


def plain_rows(frame: pl.DataFrame) -> list[dict[str, object]]:
    return [{name: plain_value(value) for name, value in row.items()} for row in frame.iter_rows(named=True)]


def to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(plain_value(value), ensure_ascii=False, indent=indent)

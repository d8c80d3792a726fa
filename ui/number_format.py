"""Formats of numbers in tables: one format in a column, and a thousands separator in counts. Pure functions."""

from collections.abc import Callable, Mapping
from math import floor, isfinite, log10

import polars as pl

from atlas.export.cells import NULL, decimals_of, display, display_cells
from atlas.export.visible import visible_text

MOST_DECIMALS = 6
"""Maximum decimals of a number: more are hard to count, so that powers of ten are shown instead."""

LONGEST_LIST = 20
"""Maximum count of the numbers of a list that a cell shows."""


def format_count(n: int | None, what: str, several: str = "") -> str:
    """Write a count with its noun: '1 row', '2,000 rows', '– rows' if the count is None. `several`: the plural, if it is not formed with an s."""
    return f"{NULL if n is None else f'{n:,}'} {what if n == 1 else several or f'{what}s'}"


def is_count(column: str) -> bool:
    """Tell whether a column holds counts or ranks; layers, identifiers and years are neither."""
    return column.startswith(("n_", "count")) or column == "rank" or column.endswith("_rank")


def formats(frame: pl.DataFrame) -> Mapping[str, str]:
    """Map each column of numbers to its format for Streamlit's number columns, in which all numbers of a column have the same decimals."""
    return {name: format_of(name, column) for name, column in ((c, frame[c]) for c in frame.columns) if column.dtype.is_numeric()}


def format_of(name: str, column: pl.Series) -> str:
    if column.dtype.is_integer():
        return "localized" if is_count(name) else "%d"
    sizes = [abs(v) for v in column.drop_nulls().to_list() if v and isfinite(v)]
    # as many as the largest needs for four digits, and the smallest for one
    least = -floor(log10(min(sizes, default=1.0)))
    return "%.2e" if least > MOST_DECIMALS else f"%.{max(decimals_of(sizes), least, 0)}f"


def cells(column: pl.Series, show: Callable[[str], str] = visible_text) -> list[str]:
    """Format the values of a column for reading, in one format; counts have a thousands separator."""
    if column.dtype.is_integer() and is_count(column.name):
        return [NULL if n is None else f"{n:,}" for n in column.to_list()]
    return display_cells(column, show)


def format_lists(column: pl.Series) -> list[str | None]:
    """Write lists of numbers as text, each number rounded, with no more numbers than a cell can bear."""
    return [None if found is None else join_values([display(value) for value in found]) for found in column.to_list()]


def join_values(values: list[str]) -> str:
    shown = " · ".join(values[:LONGEST_LIST])
    return shown if len(values) <= LONGEST_LIST else f"{shown} … ({format_count(len(values), 'number')})"

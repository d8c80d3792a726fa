"""Conversion of DuckDB's values to a frame, and errors for values that no frame can hold."""

from collections.abc import Iterator
from datetime import date

import polars as pl
import pyarrow as pa

from schema.errors import AtlasError

DECIMAL_DIGITS = 38
"""Digits of Arrow's and polars' decimals, as which DuckDB hands over HUGEINT; a HUGEINT may have one more."""

FIRST_DAY, LAST_DAY = (day.toordinal() - date(1970, 1, 1).toordinal() for day in (date.min, date.max))
"""First and last day, counted from 1970-01-01, that Python's dates can express; every way of printing uses these dates."""

PER_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
"""Unit of a timestamp or time → number of these units in a day."""

INT64_MAX = 2**63 - 1


def frame_of(table: pa.Table) -> pl.DataFrame:
    """Convert an Arrow table to a frame. Raises AtlasError, naming the column, for a type or a value that frames cannot hold."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        # those of its own are made integers below
        for values in () if is_whole_decimal(column.type) else leaves(column):
            if why := objection(values):
                raise unfit_column_error(name, why)
    try:
        frame = pl.DataFrame(pl.from_arrow(table))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise AtlasError(f"frames cannot hold this result ({str(error).splitlines()[0]}); cast the column to text in the query: ::VARCHAR") from error
    return frame.with_columns(widen_column(name, frame[name]) for name, kind in frame.schema.items() if kind == pl.Decimal(DECIMAL_DIGITS, 0))


def unfit_column_error(name: str, why: str) -> AtlasError:
    return AtlasError(f"column {name!r} holds {why}, which frames cannot hold; cast it to text in the query: ::VARCHAR")


def widen_column(name: str, column: pl.Series) -> pl.Series:
    """Convert a column of whole numbers to 128-bit integers if any has more digits than decimals have; else leave it as it is."""
    return column.to_physical() if has_wide_numbers(column) else column


def has_wide_numbers(column: pl.Series) -> bool:
    """Tell whether any of the whole numbers in a column of decimals has more than DECIMAL_DIGITS digits."""
    numbers = column.to_physical()
    return any(abs(number) >= 10**DECIMAL_DIGITS for number in (numbers.min(), numbers.max()) if isinstance(number, int))


def is_whole_decimal(kind: pa.DataType) -> bool:
    return pa.types.is_decimal128(kind) and (kind.precision, kind.scale) == (DECIMAL_DIGITS, 0)


def leaves(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the arrays of plain values that a column is made of, those within lists and structures too."""
    for chunk in column.chunks or [pa.nulls(0, column.type)]:
        yield from leaves_of(chunk)


def leaves_of(values: pa.Array) -> Iterator[pa.Array]:
    kind = values.type
    if pa.types.is_map(kind):
        yield from leaves_of(values.keys)
        yield from leaves_of(values.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from leaves_of(values.flatten())
    elif pa.types.is_struct(kind):
        for field in values.flatten():
            yield from leaves_of(field)
    else:
        yield values


def objection(values: pa.Array) -> str | None:
    """Name the kind of plain value that no frame can hold, if any of the values is of it; None if a frame can hold all of them."""
    kind = values.type
    if pa.types.is_interval(kind):
        return "INTERVAL"
    if pa.types.is_union(kind):
        return "UNION"
    if is_whole_decimal(kind):
        return "numbers of more than 38 digits within lists or structures" if has_wide_numbers(pl.Series(values)) else None
    if pa.types.is_date32(kind):
        return None if is_within_bounds(values.view(pa.int32()), FIRST_DAY, LAST_DAY) else "infinity or a date outside the years 1 to 9999"
    if pa.types.is_timestamp(kind):
        per_day = PER_DAY[kind.unit]
        # infinity is the largest number, and its opposite
        first, last = max(FIRST_DAY * per_day, 1 - INT64_MAX), min((LAST_DAY + 1) * per_day, INT64_MAX) - 1
        return None if is_within_bounds(values.view(pa.int64()), first, last) else "infinity or a time outside the years 1 to 9999"
    if pa.types.is_time(kind):
        return None if is_within_bounds(values.view(pa.int64()), 0, PER_DAY[kind.unit] - 1) else "the time 24:00:00"
    return None


def is_within_bounds(numbers: pa.Array, first: int, last: int) -> bool:
    from pyarrow import compute  # most answers have no dates, and it takes as long to import as they take

    found = compute.min_max(numbers).as_py()
    return found["min"] is None or (first <= found["min"] and found["max"] <= last)

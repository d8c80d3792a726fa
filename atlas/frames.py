"""From DuckDB to polars: what a statement returns, as a frame."""

import duckdb
import polars as pl

from atlas.cursors import Parameters, own_cursor, read_arrow, translated
from schema.errors import AtlasError
from schema.interruptible import interruptible


def fetch(con: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None) -> pl.DataFrame:
    """Run one statement and return all rows. Raises AtlasError with DuckDB's message if it fails."""
    with own_cursor(con) as cursor, translated():
        return frame_of(interruptible(cursor, lambda: read_arrow(cursor, sql, parameters)))


def frame_of(table: object) -> pl.DataFrame:
    """Raises AtlasError if a column has a type that frames cannot hold."""
    try:
        frame = pl.from_arrow(table)
    except pl.exceptions.PolarsError as error:
        raise AtlasError("a column of the result has a type that frames cannot hold, such as INTERVAL; cast it in the query, to text or a number") from error
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()

"""DuckDB to polars: the rows that a statement returns, as a frame."""

import duckdb
import polars as pl

from atlas.cursors import Parameters, own_cursor, read_arrow, translate_duckdb_errors
from schema.interruptible import interruptible


def fetch(con: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None) -> pl.DataFrame:
    """Run one statement and return all rows. Raises AtlasError with DuckDB's message if it fails."""
    from atlas.typed.values import frame_of  # with Arrow, which an atlas is opened without

    with own_cursor(con) as cursor, translate_duckdb_errors():
        return frame_of(interruptible(cursor, lambda: read_arrow(cursor, sql, parameters)))

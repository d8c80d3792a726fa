"""From DuckDB to polars: one statement, one cursor, one frame; DuckDB's errors as AtlasError."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import polars as pl

from schema.errors import AtlasError, QueryRefused

IS_DUCKDB_1 = duckdb.__version__.startswith("1.")

Parameters = Mapping[str, object] | Sequence[object] | None


def fetch(con: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None) -> pl.DataFrame:
    """Run one statement on a cursor of its own and return all rows.

    Raises AtlasError with DuckDB's message if the statement fails.
    """
    cursor = con.cursor()
    try:
        with translated():
            return read(cursor, sql, parameters)
    finally:
        cursor.close()


def read(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters) -> pl.DataFrame:
    """Each version has one fast way: DuckDB 1 is slow for relations with parameters, DuckDB 2 copies twice after execute()."""
    if IS_DUCKDB_1:
        return frame_of(cursor.execute(sql, parameters or None).to_arrow_table())
    return frame_of(cursor.sql(sql, params=parameters or None).to_arrow_table())


def frame_of(table: object) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()


@contextmanager
def translated() -> Iterator[None]:
    """DuckDB's errors in the words of ours; an interrupt passes through, because only the caller knows why."""
    try:
        yield
    except duckdb.InterruptException:
        raise
    except duckdb.PermissionException as error:
        raise QueryRefused(f"refused: a question reads this atlas and nothing else ({first_line(error)})") from error
    except duckdb.Error as error:
        raise AtlasError(f"DuckDB: {str(error).strip()}") from error
    except pl.exceptions.PolarsError as error:
        raise AtlasError(f"a column of the result has a type that frames cannot hold; cast it in the query ({first_line(error)})") from error


def first_line(error: Exception) -> str:
    return str(error).splitlines()[0]

"""From DuckDB to polars: one statement, one cursor, one frame; DuckDB's errors as AtlasError."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import polars as pl

from schema.errors import AtlasError, QueryRefused
from schema.interruptible import interruptible

IS_DUCKDB_1 = duckdb.__version__.startswith("1.")

Parameters = Mapping[str, object] | Sequence[object] | None


@contextmanager
def own_cursor(con: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """A cursor for one statement: a connection shared between threads mixes up their results."""
    with translated():
        cursor = con.cursor()
    try:
        yield cursor
    finally:
        cursor.close()


def fetch(con: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None) -> pl.DataFrame:
    """Run one statement and return all rows. Raises AtlasError with DuckDB's message if it fails."""
    with own_cursor(con) as cursor, translated():
        return interruptible(cursor, lambda: read(cursor, sql, parameters))


def fetch_rows(con: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None) -> list[tuple]:
    """The same as plain rows."""
    with own_cursor(con) as cursor, translated():
        return cursor.execute(sql, parameters or None).fetchall()


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
    """DuckDB's errors in the words of ours."""
    try:
        yield
    except duckdb.ConnectionException as error:
        raise AtlasError(f"this atlas is closed; open it again ({first_line(error)})") from error
    except duckdb.PermissionException as error:
        raise QueryRefused(f"refused: a question reads this atlas and nothing else ({first_line(error)})") from error
    except duckdb.Error as error:
        raise AtlasError(f"DuckDB: {str(error).strip()}") from error
    except pl.exceptions.PolarsError as error:
        raise AtlasError("a column of the result has a type that frames cannot hold, such as INTERVAL; cast it in the query, to text or a number") from error


def first_line(error: Exception) -> str:
    return str(error).splitlines()[0]

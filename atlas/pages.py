"""The rows of a statement a page at a time, and how many it has. The statement says their order."""

import duckdb
import polars as pl

from atlas.frames import fetch, fetch_rows


def page_of(sql: str, n: int, page: int) -> str:
    """The statement of one page of `n` rows, the first page being 1."""
    return f"{sql}\nLIMIT {n} OFFSET {(page - 1) * n}"


def read_page(con: duckdb.DuckDBPyConnection, sql: str, n: int, page: int) -> pl.DataFrame:
    """Its rows; none beyond the last page. Raises AtlasError if the statement fails."""
    return fetch(con, page_of(sql, n, page))


def count_rows(con: duckdb.DuckDBPyConnection, sql: str) -> int:
    """The rows of all pages."""
    return int(fetch_rows(con, f"SELECT count(*) FROM (\n{sql}\n)")[0][0])

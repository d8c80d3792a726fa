"""The rows of a statement, one page at a time, and their number. The statement itself orders them."""

import duckdb

from atlas.cursors import fetch_rows


def page_of(sql: str, n: int, page: int) -> str:
    """Narrow a statement to one page of `n` rows, the first page being 1."""
    return f"{sql}\nLIMIT {n} OFFSET {(page - 1) * n}"


def count_rows(con: duckdb.DuckDBPyConnection, sql: str) -> int:
    """Count the rows of all pages."""
    return int(fetch_rows(con, f"SELECT count(*) FROM (\n{sql}\n)")[0][0])

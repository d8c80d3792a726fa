"""Digests of the tables of a file, which are stored in it when it is written."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import duckdb

from schema.release import stored_tables

if TYPE_CHECKING:
    from schema.digests import Digest

STORED = "table_digest"
"""Name of the table of digests, in an atlas (schema/tables/catalogue.py) and in a file beside one."""

COMMENT = "What the tables held when this was written, for `atlas verify`, which reads every row and compares."

COMMENTS = {
    "table_name": "A table of the same file; every one but this.",
    "n_rows": "Its rows.",
    "rows_digest": "The sum of a hash of every row (schema/digests.py), 16 hexadecimal digits; the order of rows does not matter.",
    "ddl_digest": "SHA-256 over the names, types and comments of its columns, and whether each may be null.",
}

CREATION = ";\n".join(
    [
        f"CREATE TABLE {{0}}.{STORED} (table_name VARCHAR NOT NULL, n_rows BIGINT NOT NULL, rows_digest VARCHAR NOT NULL, ddl_digest VARCHAR NOT NULL)",
        f"COMMENT ON TABLE {{0}}.{STORED} IS '{COMMENT}'",
        *(f"COMMENT ON COLUMN {{0}}.{STORED}.{name} IS '{comment}'" for name, comment in COMMENTS.items()),
    ]
)
"""SQL that creates the table of digests in the database of a kind of file beside an atlas; {0} stands for the name of that database."""

COLUMNS = """
SELECT c.database_name, c.schema_name, c.table_name, c.column_name, c.data_type, c.is_nullable, c.comment
FROM system.main.duckdb_columns() AS c
ORDER BY ALL
"""


class Written(NamedTuple):
    """Content of a table, now or when it was written: the number of its rows, their digest, and the digest of its columns."""

    n_rows: int
    rows_digest: str
    ddl_digest: str


def digest_table(con: duckdb.DuckDBPyConnection, place: str) -> "Digest":
    """Read a table from end to end, and compute the digest of its rows."""
    # imported here: opening an atlas needs no Arrow
    from schema.digests import BATCH_ROWS, digest_rows

    # of a relation: DuckDB 2 copies the rows of a result once more
    return digest_rows(con.sql(f"FROM {place}").to_arrow_reader(BATCH_ROWS))


def digest_tables(con: duckdb.DuckDBPyConnection, database: str) -> "dict[str, Digest]":
    """Compute the digest of every table of a database except the table of digests."""
    tables = sorted(table for place, table in stored_tables(con) if place == database and table != STORED)
    return {table: digest_table(con, f"{database}.main.{table}") for table in tables}


def digest_ddl(con: duckdb.DuckDBPyConnection, database: str) -> dict[str, str]:
    """Map each table or view to the SHA-256 over the names, types, nullability and comments of its columns."""
    columns: dict[str, list[list]] = {}
    # without parameters, for which DuckDB imports pandas
    for place, schema, table, *column in con.execute(COLUMNS).fetchall():
        if (place, schema) == (database, "main"):
            columns.setdefault(table, []).append(column)
    return {table: sha256(json.dumps(found).encode()).hexdigest() for table, found in columns.items()}


def store_digests(con: duckdb.DuckDBPyConnection, database: str, rows: "Mapping[str, Digest]") -> None:
    """Write the digests of a database's tables into its table of digests, in place of those stored before."""
    ddl = digest_ddl(con, database)
    con.execute(f"DELETE FROM {database}.main.{STORED}")
    lines = [(table, rows[table].n_rows, str(rows[table]), ddl[table]) for table in sorted(rows)]
    # in one statement: each is on the disk before the next begins
    con.execute(f"INSERT INTO {database}.main.{STORED} VALUES {', '.join(['(?, ?, ?, ?)'] * len(lines))}", [value for line in lines for value in line])


def stored_digests(con: duckdb.DuckDBPyConnection, database: str) -> dict[str, Written]:
    """Read the stored digests: table → its content when the database was written."""
    rows = con.execute(f"SELECT d.table_name, d.n_rows, d.rows_digest, d.ddl_digest FROM {database}.main.{STORED} AS d").fetchall()
    return {name: Written(*told) for name, *told in rows}

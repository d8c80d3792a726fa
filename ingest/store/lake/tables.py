"""The tables of a lake: those of an atlas with a lake's types, without constraints, and the parts that are merged on publishing."""

from collections.abc import Mapping

import duckdb
from sqlalchemy import Table

from ingest.store.merges import MERGES
from ingest.store.transaction import transaction
from schema.build import column_types, table_comments
from schema.open.lake import CATALOG, lake_type
from schema.open.older import found_columns
from schema.tables import metadata


def create_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Create the tables and columns that the attached lake does not have yet, all in one transaction."""
    with transaction(con):
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {CATALOG}.parts")
        there = {schema: found_columns(con, CATALOG, schema) for schema in ("main", "parts")}
        for table in metadata(1).tables.values():
            for schema in ("main", *(["parts"] if table.name in MERGES else [])):
                if table.name not in there[schema]:
                    create_table(con, schema, table)
                else:
                    add_columns(con, schema, table, there[schema][table.name])
        if "committer" not in there["parts"]:
            con.execute(f"CREATE TABLE {CATALOG}.parts.committer (term BIGINT NOT NULL, holder VARCHAR, n_commits BIGINT NOT NULL)")
            con.execute(f"INSERT INTO {CATALOG}.parts.committer VALUES (0, NULL, 0)")


def add_columns(con: duckdb.DuckDBPyConnection, schema: str, table: Table, there: Mapping[str, str]) -> None:
    """Add the columns that a table of an earlier release lacks, and allow nulls in columns where only that release forbids them."""
    place, strict = f"{CATALOG}.{schema}.{table.name}", not_null(con, schema, table.name)
    for name, kind in column_types(table).items():
        if name not in there:
            con.execute(f'ALTER TABLE {place} ADD COLUMN "{name}" {lake_type(kind)}')
        elif name in strict and table.columns[name].nullable:
            con.execute(f'ALTER TABLE {place} ALTER COLUMN "{name}" DROP NOT NULL')


def not_null(con: duckdb.DuckDBPyConnection, schema: str, table: str) -> set[str]:
    found = con.execute("SELECT c.database_name, c.schema_name, c.table_name, c.column_name FROM duckdb_columns() AS c WHERE NOT c.is_nullable").fetchall()
    return {name for *place, name in found if place == [CATALOG, schema, table]}


def create_table(con: duckdb.DuckDBPyConnection, schema: str, table: Table) -> None:
    """Create one table with its comments, and with the sort order that compaction gives its files."""
    nullable = {column.name for column in table.columns if column.nullable}
    columns = ", ".join(f'"{name}" {lake_type(kind)}{"" if name in nullable else " NOT NULL"}' for name, kind in column_types(table).items())
    con.execute(f"CREATE TABLE {CATALOG}.{schema}.{table.name} ({columns})")
    con.execute(f"USE {CATALOG}.{schema}")
    con.execute("; ".join(table_comments(table)))
    if order := table.info["sort"]:
        con.execute(f"ALTER TABLE {CATALOG}.{schema}.{table.name} SET SORTED BY ({', '.join(order)})")

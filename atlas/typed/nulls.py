"""Values that are missing where tables allow no null. No ingest makes such rows, and an atlas that somebody sent may have them."""

import duckdb

from atlas.cursors import fetch_rows
from schema.tables import metadata

LAX = "SELECT c.table_name, c.column_name FROM system.main.duckdb_columns() AS c WHERE c.is_nullable"


def without_value(con: duckdb.DuckDBPyConnection) -> list[str]:
    """List the columns that must have a value and have rows without, as 'token.text'. Only those are looked into that the file itself lets be null."""
    # for DuckDB names that differ in case are one
    lax = {(table.lower(), column.lower()) for table, column in fetch_rows(con, LAX)}
    must = [(table, c.name) for table in metadata(1).tables.values() for c in table.columns if not c.nullable and (table.name, c.name) in lax]
    return [f"{table.name}.{name}" for table, name in must if fetch_rows(con, f'SELECT 1 FROM {table.fullname} AS t WHERE t."{name}" IS NULL LIMIT 1')]

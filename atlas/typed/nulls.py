"""Missing values in columns that must have one. No ingest makes such rows, but an atlas from somebody else may have them."""

import duckdb

from atlas.cursors import fetch_rows
from schema.tables import metadata

LAX = "SELECT c.table_name, c.column_name FROM system.main.duckdb_columns() AS c WHERE c.is_nullable"


def without_value(con: duckdb.DuckDBPyConnection) -> list[str]:
    """List the columns that must have a value but lack it in some row, as 'token.text'. Only columns in which the file itself allows null are checked."""
    # for DuckDB names that differ in case are one
    lax = {(table.lower(), column.lower()) for table, column in fetch_rows(con, LAX)}
    must = [(table, c.name) for table in metadata(1).tables.values() for c in table.columns if not c.nullable and (table.name, c.name) in lax]
    return [f"{table.name}.{name}" for table, name in must if fetch_rows(con, f'SELECT 1 FROM {table.fullname} AS t WHERE t."{name}" IS NULL LIMIT 1')]

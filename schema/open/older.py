"""Atlases of the same schema version whose tables, views or questions are not this release's. They are read as if these were, and ingests upgrade them.

A release may add tables, and columns that may be null. In an atlas that lacks them, such tables read as empty and such columns as null, until the next ingest
into the atlas adds them.
"""

from collections.abc import Mapping
from pathlib import Path

import duckdb
from sqlalchemy import Table

from schema.build import column_types, install_derived, table_comments, table_ddl
from schema.errors import NotAnAtlas
from schema.migrations import migrate
from schema.open.names import escape_quotes
from schema.release import stored_tables
from schema.tables import metadata

OLDER = "older"
"""Name under which a file is attached whose tables, views or questions are not this release's."""

LONGEST_ARRAY = 100_000
"""Limit on the length of DuckDB's arrays, in numbers."""


def attach_older(con: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Attach a file of another release read-only, as OLDER, to a connection with an empty database."""
    con.execute(f"ATTACH '{escape_quotes(file)}' AS {OLDER} (READ_ONLY)")


def install_stand_ins(con: duckdb.DuckDBPyConnection, database: str) -> None:
    """Create, for every table of an atlas, a view of the same name and types over the attached `database`, and then the atlas's views and questions.

    Raises NotAnAtlas if a view, or a table with computed columns, is in the place of a table.
    """
    there, stored = found_columns(con, database), stored_tables(con)
    names = {name.lower(): name for name in there}
    if odd := sorted(name for name in metadata(1).tables if name in names and (database, names[name]) not in stored):
        raise NotAnAtlas(
            f"not an atlas that an ingest would make: where tables should be, it holds views or tables with computed columns ({', '.join(odd[:5])})"
        )
    for table in metadata(read_d_model(con, f"{database}.main.model") or 1).tables.values():
        con.execute(stand_in(table, there.get(table.name, {}), f"{database}.main"))
        con.execute("; ".join(table_comments(table, "VIEW")))
    install_derived(con)


def read_d_model(con: duckdb.DuckDBPyConnection, model: str) -> int | None:
    """Read d_model from the table `model`; None if it has no rows. Raises NotAnAtlas unless d_model can be an array's length in SQL types."""
    for (d_model,) in con.execute(f"SELECT m.d_model FROM {model} AS m LIMIT 1").fetchall():
        if not isinstance(d_model, int) or not 0 < d_model <= LONGEST_ARRAY:
            raise NotAnAtlas(f"not an atlas as an ingest makes one: its d_model is {str(d_model)[:40]!r}")
        return d_model
    return None


def found_columns(con: duckdb.DuckDBPyConnection, database: str, schema: str = "main") -> dict[str, dict[str, str]]:
    """List the columns of an attached database: table → column → type."""
    found: dict[str, dict[str, str]] = {}
    # without parameters, for which DuckDB imports pandas
    sql = "SELECT c.database_name, c.schema_name, c.table_name, c.column_name, c.data_type FROM duckdb_columns() AS c ORDER BY ALL"
    for *place, table, column, kind in con.execute(sql).fetchall():
        if place == [database, schema]:
            found.setdefault(table, {})[column] = kind
    return found


def stand_in(table: Table, there: Mapping[str, str], schema: str) -> str:
    """Write CREATE VIEW for a table. there: the table's columns in the file → their types. Other columns are null; without the table, the view has no rows."""
    # t. keeps a column apart from a macro's parameter of the same name, which DuckDB finds inside views too
    columns = [
        (f't."{name}"' if there[name] == kind else f't."{name}"::{kind} AS "{name}"') if name in there else f'NULL::{kind} AS "{name}"'
        for name, kind in column_types(table).items()
    ]
    return f"CREATE VIEW {table.name} AS SELECT {', '.join(columns)} {f'FROM {schema}.{table.name} AS t' if there else 'WHERE false'}"


def upgrade_tables(con: duckdb.DuckDBPyConnection, d_model: int) -> None:
    """Upgrade the tables of the current database, an atlas of this schema version: run the due migrations, and add the tables and columns that it lacks.

    It runs within the caller's transaction: an interrupted upgrade changes nothing.
    """
    is_changed = migrate(con)
    there = found_columns(con, con.execute("SELECT current_database()").fetchall()[0][0])
    for table in metadata(d_model).tables.values():
        missing = [name for name in column_types(table) if name not in there.get(table.name, {})]
        if table.name not in there:
            con.execute("; ".join(table_ddl(table)))
        elif missing:
            types = column_types(table)
            con.execute("; ".join([*(f'ALTER TABLE {table.name} ADD COLUMN "{name}" {types[name]}' for name in missing), *table_comments(table)]))
        elif is_changed:
            con.execute("; ".join(table_comments(table)))

"""Rows of a file beside an atlas that are of another model or text: they are found once the atlas is open, and left out of the attached database.

The file keeps these rows, so that an atlas of that other model or text shows them. If there are any, the attached database has a table LEFT_OUT, which no
file has, with the columns reason (model or text) and n (how many rows).
"""

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import duckdb

from schema.release import stored_tables

if TYPE_CHECKING:
    import pyarrow as pa

LEFT_OUT = "left_out"
REASON = "reason"
"""Last column that others.sql selects: 'model' or 'text'. The columns before it are the keys that identify a row."""


def find_others(con: duckdb.DuckDBPyConnection, sql: str) -> "pa.Table | None":
    """Find the rows that a kind's others.sql selects in an atlas that is open with the whole file attached; None if all rows are the atlas's own."""
    # twice, because whoever has none need not wait for Arrow; by a cursor, which lets the connection go with the rest unread
    with closing(con.cursor()) as cursor:
        if cursor.execute(sql).fetchone() is None:
            return None
    return con.sql(sql).to_arrow_table()


def leave_out(con: duckdb.DuckDBPyConnection, database: str, others: "pa.Table", hanging: Sequence[tuple[str, str, str]] = ()) -> None:
    """Delete the rows `others`, and the rows that depend on them, from an attached copy of the file; count `others` in the copy's table LEFT_OUT.

    hanging: for each table that lacks the keys of `others`, its name, the column that refers to another table, and the name of that other table.
    """
    keys = [name for name in others.column_names if name != REASON]
    con.register("another", others)
    for table in tables_with(con, database, keys):
        # not with USING, which takes every pair of rows that share a key
        same = " AND ".join(f"t.{key} = o.{key}" for key in keys)
        con.execute(f"DELETE FROM {database}.{table} AS t WHERE EXISTS (SELECT 1 FROM another AS o WHERE {same})")
    for table, column, root in hanging:
        con.execute(f"DELETE FROM {database}.{table} WHERE {column} NOT IN (SELECT r.{column} FROM {database}.{root} AS r)")
    con.execute(f"CREATE TABLE {database}.{LEFT_OUT} AS SELECT o.{REASON}, count(*)::INTEGER AS n FROM another AS o GROUP BY ALL ORDER BY ALL")
    con.unregister("another")


def tables_with(con: duckdb.DuckDBPyConnection, database: str, keys: Sequence[str]) -> list[str]:
    """List the stored tables of a database that have all these columns."""
    sql = "SELECT c.table_name, list(c.column_name) FROM duckdb_columns() AS c WHERE c.database_name = ? GROUP BY ALL ORDER BY ALL"
    stored = stored_tables(con)
    return [table for table, columns in con.execute(sql, [database]).fetchall() if (database, table) in stored and {*columns} >= {*keys}]


def differ(there: str, here: str) -> str:
    """Write SQL for whether two stored texts differ in more than the spelling of broken characters: this release writes ⟨E2 98⟩, earlier ones U+FFFD.

    The SQL matches no pattern: a text in a file may be long, and made so that matching is slow.
    """
    return (
        f"CASE WHEN contains({there}, chr(65533)) AND contains({here}, '⟨') "
        f"THEN NOT starts_with({here}, split_part({there}, chr(65533), 1)) ELSE {there} <> {here} END"
    )

"""A cursor with the tables of a live prompt beside the atlas's, under the same names."""

from typing import Any

import duckdb
import pyarrow as pa

LIVE = "live_"
"""Prefix of a live table's own name."""

ARRIVED = "arrived"

OWN = """
SELECT t.table_name FROM duckdb_tables() AS t WHERE t.database_name = current_database() AND t.schema_name = 'main' AND NOT t.temporary
UNION ALL
SELECT v.view_name FROM duckdb_views() AS v WHERE v.database_name = current_database() AND v.schema_name = 'main' AND NOT v.temporary AND NOT v.internal
"""
"""Query for the names of the atlas's tables, and of the views that replace tables in atlases of an older release and in lakes."""


class PinnedCursor:
    """A cursor whose `cursor()` returns itself: temporary tables are visible only to the cursor that created them."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self.own = cursor

    def cursor(self) -> "PinnedCursor":
        return self

    def close(self) -> None:
        """Leave the cursor open for the next statement; `own` is closed with the trace."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


def open_pinned_cursor(con: duckdb.DuckDBPyConnection, tables: dict[str, pa.Table]) -> PinnedCursor:
    """Open a cursor on which each table of the atlas also has the live rows; a live table that the atlas lacks has only the live rows.

    On this cursor, questions about a whole corpus count the live rows too, whose ids are negative; other cursors do not see them.
    """
    cursor = con.cursor()
    ((catalog,),) = cursor.execute("SELECT current_database()").fetchall()
    own = {name for (name,) in cursor.execute(OWN).fetchall()}
    for name, table in tables.items():
        # as tables of its own: a typed statement may read those, and no function that scans what Python holds
        cursor.register(ARRIVED, table)
        cursor.execute(f"CREATE TEMP TABLE {quote_identifier(LIVE + name)} AS FROM {ARRIVED}")
        cursor.unregister(ARRIVED)
        both = f"SELECT * FROM {quote_identifier(catalog)}.main.{quote_identifier(name)} UNION ALL BY NAME " if name in own else ""
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {quote_identifier(name)} AS {both}SELECT * FROM {quote_identifier(LIVE + name)}")
    return PinnedCursor(cursor)


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

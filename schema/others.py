"""Rows of a file beside an atlas that are of another model or another text: found once the atlas is open, and left out of what is attached to it.

The file keeps them, so that an atlas of that model or text has them again. Where there are any, the attached database has a table LEFT_OUT, which no file has:
reason, model or text, and n, how many of them there are.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from schema.release import stored_tables

LEFT_OUT = "left_out"


@dataclass(frozen=True)
class Others:
    """The rows of one file: `keys` are the columns that name one, `rows` their values, with 'model' or 'text' last."""

    keys: tuple[str, ...]
    rows: tuple[tuple, ...]


def find_others(con: duckdb.DuckDBPyConnection, sql: str) -> Others | None:
    """What others.sql of a kind finds in an atlas that is open with the whole file attached; None where all is the atlas's own."""
    found = con.execute(sql)
    *keys, _ = (column[0] for column in found.description)
    rows = found.fetchall()
    return Others(tuple(keys), tuple(rows)) if rows else None


def leave_out(con: duckdb.DuckDBPyConnection, database: str, others: Others, hanging: Sequence[tuple[str, str, str]] = ()) -> None:
    """Delete those rows, and what hangs on them, from an attached copy of the file, and say so in its table LEFT_OUT.

    hanging: each table without these keys, the column by which it hangs on another, and that other.
    """
    values = zip(*(row[:-1] for row in others.rows), strict=True)
    columns = (f"unnest({list(column)}::BIGINT[]) AS {key}" for key, column in zip(others.keys, values, strict=True))
    con.execute(f"CREATE TEMP TABLE another AS SELECT {', '.join(columns)}")
    for table in tables_with(con, database, others.keys):
        con.execute(f"DELETE FROM {database}.{table} AS t USING temp.another AS o WHERE {' AND '.join(f't.{key} = o.{key}' for key in others.keys)}")
    for table, column, root in hanging:
        con.execute(f"DELETE FROM {database}.{table} WHERE {column} NOT IN (SELECT r.{column} FROM {database}.{root} AS r)")
    con.execute("DROP TABLE temp.another")
    counts = Counter(reason for *_, reason in others.rows)
    con.execute(f"CREATE TABLE {database}.{LEFT_OUT} (reason VARCHAR, n INTEGER)")
    con.executemany(f"INSERT INTO {database}.{LEFT_OUT} VALUES (?, ?)", sorted(counts.items()))


def tables_with(con: duckdb.DuckDBPyConnection, database: str, keys: Sequence[str]) -> list[str]:
    """Stored tables of a database that have all these columns."""
    sql = "SELECT c.table_name, list(c.column_name) FROM duckdb_columns() AS c WHERE c.database_name = ? GROUP BY ALL ORDER BY ALL"
    stored = stored_tables(con)
    return [table for table, columns in con.execute(sql, [database]).fetchall() if (database, table) in stored and {*columns} >= {*keys}]

"""Whether an atlas file is made of plain rows: an ingest writes into a copy of it, in which what a stranger defined would act with nothing locked."""

from contextlib import closing
from pathlib import Path

from schema.errors import NotAnAtlas
from schema.release import stored_tables
from schema.store import lock_down, open_writer, own_name
from schema.tables import metadata

SENT = "sent"

TABLES = f"SELECT t.table_name FROM duckdb_tables() AS t WHERE t.database_name = '{SENT}'"
VIEWS = f"SELECT v.view_name FROM duckdb_views() AS v WHERE v.database_name = '{SENT}'"
SHADOWS = f"""
SELECT DISTINCT f.function_name FROM duckdb_functions() AS f
WHERE f.database_name = '{SENT}' AND f.function_name IN (SELECT s.function_name FROM duckdb_functions() AS s WHERE s.database_name = 'system')
"""


def check_plain(path: Path) -> None:
    """Raise NotAnAtlas for an atlas in which a table of ours is a view, or has computed columns, or a macro has the name of a function of DuckDB's.

    Asked from a database in memory, where nothing that the file defines is found by its name alone.
    """
    ours = set(metadata(1).tables)
    with own_name(path) as own, closing(open_writer(":memory:")) as con:
        name = str(own).replace("'", "''")
        con.execute(f"ATTACH '{name}' AS {SENT} (READ_ONLY)")
        lock_down(con)
        plain = {table for database, table in stored_tables(con) if database == SENT}
        tables, views, shadows = ({found for (found,) in con.execute(sql).fetchall()} for sql in (TABLES, VIEWS, SHADOWS))
    odd = {
        "views in the place of tables": ours & views,
        "tables with computed columns": (ours & tables) - plain,
        "macros with the names of DuckDB's functions": shadows,
    }
    found = "; ".join(f"{what} ({', '.join(sorted(names)[:5])})" for what, names in odd.items() if names)
    if found:
        raise NotAnAtlas(f"{path} is no atlas as an ingest makes it, and none is made into it: it holds {found}")

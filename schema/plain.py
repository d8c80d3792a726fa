"""Check that an atlas file consists of plain rows: an ingest writes into a copy that is not locked down, in which a stranger's definitions could act."""

from pathlib import Path

from schema.errors import NotAnAtlas
from schema.open.store import SENT, open_untrusted
from schema.release import stored_tables
from schema.tables import metadata

SCHEMAS = f"SELECT s.schema_name FROM duckdb_schemas() AS s WHERE s.database_name = '{SENT}' AND NOT s.internal AND s.schema_name <> 'main'"
TABLES = f"SELECT lower(t.table_name) FROM duckdb_tables() AS t WHERE t.database_name = '{SENT}'"
VIEWS = f"SELECT lower(v.view_name) FROM duckdb_views() AS v WHERE v.database_name = '{SENT}'"
SHADOWS = f"""
SELECT lower(f.function_name) FROM duckdb_functions() AS f GROUP BY lower(f.function_name)
HAVING bool_or(f.database_name = '{SENT}') AND bool_or(f.database_name = 'system')
"""
"""Query for macros of the file that have the name of a DuckDB function. Names are put in lower case, here and above: DuckDB treats names that differ only in
case as one."""


def check_plain(path: Path) -> None:
    """Raise NotAnAtlas if the file has schemas of its own, views or computed columns in place of our tables, or macros named like DuckDB functions."""
    ours = set(metadata(1).tables)
    with open_untrusted(path) as con:
        plain = {table.lower() for database, table in stored_tables(con) if database == SENT}
        schemas, tables, views, shadows = ({found for (found,) in con.execute(sql).fetchall()} for sql in (SCHEMAS, TABLES, VIEWS, SHADOWS))
    odd = {
        "schemas of its own": schemas,
        "views in the place of tables": ours & views,
        "tables with computed columns": (ours & tables) - plain,
        "macros with the names of DuckDB's functions": shadows,
    }
    found = "; ".join(f"{what} ({', '.join(sorted(names)[:5])})" for what, names in odd.items() if names)
    if found:
        raise NotAnAtlas(f"{path} is not an atlas that an ingest would make, so nothing is ingested into it: it holds {found}")

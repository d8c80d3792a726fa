"""Publish a snapshot: a new file with every table merged and sorted, checked by a full scan, put in place by one rename.

The committer's file only ever grows: triggers and statistics lie in it as the shards brought them. A snapshot is written
afresh from it, so it is compact, sorted for its queries, has no write-ahead log, and readers of the old one are not disturbed.
"""

from pathlib import Path

import duckdb

from ingest.store.empty import lay_out
from ingest.store.merges import MERGES, merged, parts
from ingest.store.shards import fsync
from ingest.store.transaction import transaction
from schema.errors import AtlasError
from schema.logs import check_log, log_of
from schema.store import atlas_options
from schema.tables import metadata


def publish(con: duckdb.DuckDBPyConnection, target: Path, work: Path) -> None:
    """Write the committer's state to `target` as a complete atlas. `con` has the committer's file as its current database."""
    draft = work / "snapshot.tmp"
    for left in (draft, log_of(draft)):
        left.unlink(missing_ok=True)
    name = con.execute("SELECT current_database()").fetchall()[0][0]
    d_model = con.execute("SELECT d_model FROM model").fetchall()[0][0]
    con.execute(f"ATTACH '{quoted(draft)}' AS snapshot ({atlas_options(d_model)})")
    con.execute("USE snapshot.main")
    lay_out(con, draft, d_model)
    fill_snapshot(con, name)
    con.execute("CHECKPOINT snapshot")
    con.execute(f"USE {name}")
    con.execute("DETACH snapshot")
    put_in_place(con, draft, target)


def put_in_place(con: duckdb.DuckDBPyConnection, draft: Path, target: Path) -> None:
    """Give a complete file its name, once it has been read back from end to end. Raises AtlasError if the file of that name has a log."""
    check_snapshot(con, draft)
    fsync(draft)
    check_log(target)
    draft.rename(target)
    fsync(target.parent.resolve())


def fill_snapshot(con: duckdb.DuckDBPyConnection, source: str) -> None:
    """Fill every table of the current database, sorted, from the database `source`."""
    for table in metadata(1).tables.values():
        by_order = " ORDER BY " + ", ".join(table.info["sort"]) if table.info["sort"] else ""
        rows, insert = f"{source}.{table.name}", f"INSERT INTO {table.name} BY NAME "
        if table.name not in MERGES:
            con.execute(f"{insert} FROM {rows}{by_order}")
            continue
        with transaction(con):  # one for all parts, so that the file's blocks fill up
            for part in parts(con, table.name, rows):
                con.execute(f"{insert} {merged(table.name, rows)}{by_order}", part)


def check_snapshot(con: duckdb.DuckDBPyConnection, draft: Path) -> None:
    """Read every value of the new file back; raise AtlasError if a log is left or a table cannot be read."""
    if Path(f"{draft}.wal").exists():
        raise AtlasError(f"{draft} still has a write-ahead log after its checkpoint; it was not published")
    con.execute(f"ATTACH '{quoted(draft)}' AS check_snapshot (READ_ONLY)")
    try:
        names = con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'check_snapshot'").fetchall()
        if missing := metadata(1).tables.keys() - {name for (name,) in names}:
            raise AtlasError(f"the new snapshot {draft} lacks the tables {', '.join(sorted(missing)[:5])} and was not published")
        for (name,) in names:
            con.execute(f"SELECT bit_xor(hash(t)) FROM check_snapshot.{name} AS t").fetchall()
    except duckdb.Error as error:
        raise AtlasError(f"the new snapshot {draft} does not read back and was not published: {str(error).splitlines()[0]}") from error
    finally:
        con.execute("DETACH check_snapshot")


def quoted(path: Path) -> str:
    return str(path).replace("'", "''")

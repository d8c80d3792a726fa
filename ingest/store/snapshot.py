"""Publishing of a snapshot: a new file with every table merged and sorted, checked by a full scan, and put in place by one rename.

The committer's file only ever grows, and its triggers and statistics are not merged. A snapshot is written afresh from that file, so it is compact, sorted
for its queries, and has no write-ahead log; readers of the old snapshot are not disturbed.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import duckdb

from ingest.store.empty import lay_out
from ingest.store.merges import MERGES, merge_sql, parts
from ingest.store.transaction import transaction
from schema import durable
from schema.digests import NOTHING, Digest
from schema.errors import AtlasError
from schema.open.logs import check_log, log_of
from schema.open.store import atlas_options
from schema.table_digests import STORED, digest_table, store_digests
from schema.tables import metadata


class Sums(NamedTuple):
    """Checksums of a table's rows. digest: of our own hashes, which never change. hashes: of DuckDB's, which are faster but differ between its versions."""

    digest: Digest
    hashes: int


def publish(con: duckdb.DuckDBPyConnection, target: Path, work: Path) -> None:
    """Write the committer's state to `target` as a complete atlas. `con` has the committer's file as its current database."""
    draft = work / "snapshot.tmp"
    for left in (draft, log_of(draft)):
        left.unlink(missing_ok=True)
    name = con.execute("SELECT current_database()").fetchall()[0][0]
    d_model = con.execute("SELECT d_model FROM model").fetchall()[0][0]
    con.execute(f"ATTACH '{escape_quotes(draft)}' AS snapshot ({atlas_options(d_model)})")
    con.execute("USE snapshot.main")
    lay_out(con, draft, d_model)
    sums = add_up(con, fill_snapshot(con, name))
    store_digests(con, "snapshot", {table: found.digest for table, found in sums.items()})
    con.execute("CHECKPOINT snapshot")
    con.execute(f"USE {name}")
    con.execute("DETACH snapshot")
    put_in_place(con, draft, target, sums)


def put_in_place(con: duckdb.DuckDBPyConnection, draft: Path, target: Path, sums: Mapping[str, Sums]) -> None:
    """Rename a complete draft to `target`, once it has been read back from end to end and matches the sums of the rows that were written.

    Raises AtlasError if the file at `target` has a log.
    """
    check_snapshot(con, draft, sums)
    check_log(target)
    durable.put_in_place(draft, target)


def add_up(con: duckdb.DuckDBPyConnection, places: Mapping[str, str]) -> dict[str, Sums]:
    """Compute the checksums of the rows that each table should have: table → sums. places: table → the place from which to read these rows.

    Must not run while other tables are filled: a reader of a file keeps DuckDB from reusing its blocks.
    """
    with ThreadPoolExecutor(2, thread_name_prefix="sums") as pool, ExitStack() as stack:
        cursors = [stack.enter_context(closing(con.cursor())) for _ in places]
        try:
            return dict(zip(places, pool.map(sum_rows, cursors, places.values()), strict=True))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for cursor in cursors:
                cursor.interrupt()
            # before they are closed
            pool.shutdown()
            raise


def sum_rows(con: duckdb.DuckDBPyConnection, place: str) -> Sums:
    # most tables of most atlases are empty, which costs little to ask
    if not con.execute(f"SELECT count(*) FROM {place}").fetchall()[0][0]:
        return Sums(NOTHING, 0)
    return Sums(digest_table(con, place), sum_hashes(con, place))


def sum_hashes(con: duckdb.DuckDBPyConnection, place: str) -> int:
    """Sum DuckDB's own hashes of a table's rows, which reads the table from end to end."""
    return int(con.execute(f"SELECT coalesce(sum(hash(t)), 0) FROM {place} AS t").fetchall()[0][0])


def fill_snapshot(con: duckdb.DuckDBPyConnection, source: str) -> dict[str, str]:
    """Fill every table of the current database, sorted, from the database `source`; return table → the place of the rows that it should have."""
    places = {}
    for table in metadata(1).tables.values():
        if table.name == STORED:
            continue
        by_order = " ORDER BY " + ", ".join(table.info["sort"]) if table.info["sort"] else ""
        rows, insert = f"{source}.{table.name}", f"INSERT INTO {table.name} BY NAME "
        if table.name not in MERGES:
            con.execute(f"{insert} FROM {rows}{by_order}")
            # not what was written, which would be taken for what should be; a table that an earlier release made lacks columns that this one's has
            is_same = columns_of(con, rows) == columns_of(con, table.name)
            places[table.name] = rows if is_same else f"snapshot.main.{table.name}"
            continue
        with transaction(con):  # one for all parts, so that the file's blocks fill up
            for part in parts(con, table.name, rows):
                con.execute(f"{insert} {merge_sql(table.name, rows)}{by_order}", part)
        places[table.name] = f"snapshot.main.{table.name}"
    return places


def columns_of(con: duckdb.DuckDBPyConnection, place: str) -> list[str]:
    return [column[0] for column in con.execute(f"FROM {place} LIMIT 0").description or ()]


def check_snapshot(con: duckdb.DuckDBPyConnection, draft: Path, sums: Mapping[str, Sums]) -> None:
    """Read back every value of the new file. Raises AtlasError if a log is left, or a table is missing, cannot be read or does not match `sums`."""
    if Path(f"{draft}.wal").exists():
        raise AtlasError(f"{draft} still has a write-ahead log after its checkpoint; it was not published")
    con.execute(f"ATTACH '{escape_quotes(draft)}' AS check_snapshot (READ_ONLY)")
    try:
        names = con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'check_snapshot'").fetchall()
        if missing := metadata(1).tables.keys() - {name for (name,) in names}:
            raise AtlasError(f"the new snapshot {draft} lacks the tables {', '.join(sorted(missing)[:5])} and was not published")
        for (name,) in names:
            found = sum_hashes(con, f"check_snapshot.main.{name}")
            if name in sums and found != sums[name].hashes:
                raise AtlasError(f"the new snapshot {draft} contains other rows of {name} than were written to it, and was not published")
    except duckdb.Error as error:
        raise AtlasError(f"the new snapshot {draft} does not read back and was not published: {str(error).splitlines()[0]}") from error
    finally:
        con.execute("DETACH check_snapshot")


def escape_quotes(path: Path) -> str:
    return str(path).replace("'", "''")

"""Make few sorted files of a lake's many small ones, and remove what nobody needs any more."""

from pathlib import Path
from typing import NamedTuple

import duckdb

from ingest.store.committer import recover
from ingest.store.lake.store import LakeStore, opened_lake
from schema.lake import CATALOG, lake_bytes


class Compacted(NamedTuple):
    """Files of the lake's tables and their bytes, before and after; files that were removed from the storage."""

    files: tuple[int, int]
    bytes: tuple[int, int]
    n_removed: int


def compact(path: Path, keep_hours: int) -> Compacted:
    """Merge the files of every table, in the table's order, and remove files that no snapshot of the last `keep_hours` needs.

    Who opened the lake longer ago can read it no more. Raises Locked while an ingest writes to it.
    """
    with opened_lake(path) as store:
        # the files of a shard that waits are nobody's yet
        recover(store)
        before = size(store.con)
        store.con.execute(f"CALL ducklake_merge_adjacent_files('{CATALOG}')")
        store.publish()
        store.con.execute(f"CALL ducklake_expire_snapshots('{CATALOG}', older_than => now() - INTERVAL {keep_hours} HOUR)")
        old = store.con.execute(f"CALL ducklake_cleanup_old_files('{CATALOG}', cleanup_all => true)").fetchall()
        left = orphans(store)
        remove_orphans(store)
        after = size(store.con)
    return Compacted((before[0], after[0]), (before[1], after[1]), len(old) + len(left))


def size(con: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Files of all tables, and their bytes."""
    return int(con.execute(f"SELECT coalesce(sum(file_count), 0) FROM ducklake_table_info('{CATALOG}')").fetchall()[0][0]), lake_bytes(con)


def orphans(store: LakeStore) -> list[str]:
    """Files in the storage that belong to no snapshot and to no shard that waits."""
    waiting = tuple(f"{shard.path}/" for shard in store.staging.waiting())
    found = store.con.execute(f"CALL ducklake_delete_orphaned_files('{CATALOG}', cleanup_all => true, dry_run => true)").fetchall()
    return [path for (path,) in found if not path.startswith(waiting)]


def remove_orphans(store: LakeStore) -> None:
    """Raises nothing but asks that no shard waits."""
    store.con.execute(f"CALL ducklake_delete_orphaned_files('{CATALOG}', cleanup_all => true)")

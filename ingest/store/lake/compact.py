"""Compaction of a lake: merging of many small files into few sorted ones, and removal of files that nobody needs any more.

DuckLake's own functions remove files of any name, wherever its catalogue points, so they are called only to list files. See ingest/store/lake/place.py.
"""

from pathlib import Path
from typing import NamedTuple

import duckdb

from ingest.store.committer import recover
from ingest.store.lake.marking import unknown_files
from ingest.store.lake.place import OWN
from ingest.store.lake.store import LakeStore, opened_lake
from schema.open.lake import CATALOG, catalogue, lake_bytes

SCHEDULED = "SELECT f.path, f.path_is_relative FROM ducklake_files_scheduled_for_deletion AS f"


class Compacted(NamedTuple):
    """Number and bytes of the files of the lake's tables, before and after; number of files that were removed from the storage."""

    files: tuple[int, int]
    bytes: tuple[int, int]
    n_removed: int


class Planned(NamedTuple):
    """Full paths of the files that would be removed, and of the files that would also be removed if they are merged into others."""

    removed: list[str]
    merged: list[str]


def compact(path: Path, keep_hours: int) -> Compacted:
    """Merge the files of every table, in the table's order, and remove files that no snapshot of the last `keep_hours` needs.

    A reader that opened the lake more than `keep_hours` ago can no longer read it. Raises Locked while an ingest writes to the lake.
    """
    with opened_lake(path) as store:
        # the files of a shard that waits are nobody's yet
        recover(store)
        before = size(store.con)
        store.con.execute(f"CALL ducklake_merge_adjacent_files('{CATALOG}')")
        store.publish()
        store.con.execute(f"CALL ducklake_expire_snapshots('{CATALOG}', older_than => now() - INTERVAL {keep_hours} HOUR)")
        n_removed = remove_old(store) + remove_orphans(store)
        after = size(store.con)
    return Compacted((before[0], after[0]), (before[1], after[1]), n_removed)


def plan(path: Path) -> Planned:
    """List what `compact` may remove. Nothing is merged, loaded or removed."""
    with opened_lake(path) as store:
        manifests = [f"{folder}/manifest.json" for folder in waiting_folders(store)]
        removed = sorted({*old_files(store), *orphans(store), *manifests})
        merged = sorted({name for name in store.place.files() if OWN.fullmatch(name)} - set(removed))
    return Planned(*([f"{store.lake.data}/{name}" for name in names] for names in (removed, merged)))


def size(con: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Count the files of all tables, and their bytes."""
    return int(con.execute(f"SELECT coalesce(sum(file_count), 0) FROM ducklake_table_info('{CATALOG}')").fetchall()[0][0]), lake_bytes(con)


def waiting_folders(store: LakeStore) -> list[str]:
    """List the names of the folders of shards that wait to be loaded."""
    return [name.removesuffix("/manifest.json") for name in store.staging.manifests()]


def old_files(store: LakeStore) -> dict[str, str]:
    """Map the name of each file that no snapshot needs any more to its path in the catalogue.

    Names that no lake gives are left out, since their paths may lead to files that are not the lake's.
    """
    with catalogue(store.lake) as session:
        found = session.execute(SCHEDULED).fetchall()
    names = {path: path if is_relative else store.place.name(path) for path, is_relative in found}
    return {name: path for path, name in names.items() if name is not None and OWN.fullmatch(name)}


def remove_old(store: LakeStore) -> int:
    """Remove the old files, and return their number. They are deleted from the catalogue last, so that the next run repeats an interrupted removal."""
    old = old_files(store)
    store.remove(old.keys())
    with catalogue(store.lake) as session:
        session.execute("DELETE FROM ducklake_files_scheduled_for_deletion WHERE path = ANY(%s)", [list(old.values())])
    return len(old)


def orphans(store: LakeStore) -> list[str]:
    """List the lake's own files that belong to no snapshot and to no shard that waits, by name."""
    waiting = tuple(f"{folder}/" for folder in waiting_folders(store))
    return [name for name in unknown_files(store.con, store.place) if OWN.fullmatch(name) and not name.startswith(waiting)]


def remove_orphans(store: LakeStore) -> int:
    """Remove the orphans, and count them."""
    left = orphans(store)
    store.remove(left)
    return len(left)

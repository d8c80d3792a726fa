"""Faults of a lake, and their repair. Nothing is checked while an ingest writes to the lake."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ingest.store.committer import recover
from ingest.store.doctor import Finding, companion_findings, waiting_shards_finding
from ingest.store.lake.compact import orphans, remove_orphans, waiting_folders
from ingest.store.lake.store import LakeStore, opened_lake
from schema.open.lake import CATALOG

TWICE = "SELECT s.run_id, s.shard_id, count(*) FROM shard AS s GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL"


@contextmanager
def lake_findings(path: Path, *, claims: bool = False) -> Iterator[Iterator[Finding]]:
    """Lock a lake for this process alone, and yield an iterator over its faults. Raises as `opened_lake`, and AtlasError if the lake cannot be reached."""
    with opened_lake(path, claims=claims) as store:
        yield findings(store, path)


def findings(store: LakeStore, path: Path) -> Iterator[Finding]:
    yield from companion_findings(path)
    yield from table_findings(store)
    yield from shard_findings(store)
    if left := orphans(store):
        what = f"{len(left)} files in {store.lake.data} belong to no table, such as {store.lake.data}/{left[0]}"
        names = [*left, *(f"{folder}/manifest.json" for folder in waiting_folders(store))]
        removes = tuple(f"{store.lake.data}/{name}" for name in names)
        yield Finding(what, "load the shards that wait, and remove these files", partial(clean, store), removes=removes)


def clean(store: LakeStore) -> None:
    """Load the shards that wait, so that their files belong to a table, and remove the lake's own files that belong to no table."""
    recover(store)
    remove_orphans(store)


def table_findings(store: LakeStore) -> Iterator[Finding]:
    """Read every table to its end in the lake's present state; yield tables that cannot be read, and shards that were loaded more than once."""
    tables = store.con.execute("SELECT t.schema_name, t.table_name FROM duckdb_tables() AS t WHERE t.database_name = ? ORDER BY ALL", [CATALOG]).fetchall()
    for schema, table in tables:
        try:
            store.con.execute(f"SELECT bit_xor(hash(t)) FROM {CATALOG}.{schema}.{table} AS t").fetchall()
        except Exception as error:
            yield Finding(f"{schema}.{table} does not read back: {str(error).splitlines()[0]}", "restore its files from a backup of the storage")
    for run_id, shard_id, n in store.con.execute(TWICE).fetchall():
        yield Finding(f"shard {shard_id} of run {run_id} was loaded {n} times", "this should be impossible: report it, and ingest again into a new lake")


def shard_findings(store: LakeStore) -> Iterator[Finding]:
    broken = store.staging.broken_manifests()
    n_whole = len(store.staging.manifests()) - len(broken)
    for name, why in broken:
        # its files are nobody's then, and go with the others'
        yield Finding(why, "remove its manifest", partial(store.remove, [name]), removes=(f"{store.lake.data}/{name}",))
    if n_whole:
        yield waiting_shards_finding(n_whole)

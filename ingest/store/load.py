"""Load shards into the committer's file: data and manifest row in one transaction, each shard exactly once."""

import json
from datetime import UTC, datetime

import duckdb

from ingest.store.shards import Shard, verify_shard
from ingest.store.transaction import transaction
from schema.errors import AtlasError

SHARED = {"document": "document_id", "sequence": "sequence_id", "position": "position_id"}
"""Tables that a sweep and a trace of one corpus both bring, with their keys: rows already there are left as they are."""


def loaded_shards(con: duckdb.DuckDBPyConnection, run_id: int) -> set[int]:
    """Read the numbers of the run's shards that are in the file."""
    return {n for (n,) in con.execute("SELECT shard_id FROM shard WHERE run_id = ?", [run_id]).fetchall()}


def load_shard(con: duckdb.DuckDBPyConnection, shard: Shard) -> None:
    """Insert a shard and its manifest row in one transaction.

    Raises AtlasError if the files are damaged or hold other row counts than the manifest says, and duckdb's own
    ConstraintException if the shard is loaded already; in each case nothing of it stays.
    """
    verify_shard(shard)
    with transaction(con):
        for table, n_rows in shard.n_rows.items():
            insert(con, table, f"{shard.path}/{table}.parquet", n_rows)
        con.execute(
            "INSERT INTO shard (run_id, shard_id, n_rows, sha256, worker, committed_at) VALUES (?, ?, ?, ?, ?, ?)",
            [shard.run_id, shard.shard_id, json.dumps(shard.n_rows), shard.sha256, shard.worker, datetime.now(UTC)],
        )


def insert(con: duckdb.DuckDBPyConnection, table: str, file: str, n_rows: int) -> None:
    """INSERT one Parquet file by column name, and check that all of it arrived."""
    found = con.execute("SELECT count(*) FROM read_parquet(?)", [file]).fetchall()[0][0]
    if found != n_rows:
        raise AtlasError(f"{file} has {found} rows where the manifest says {n_rows}")
    insert_new(con, table, file)


def insert_new(con: duckdb.DuckDBPyConnection, table: str, file: str) -> None:
    """INSERT the rows of a Parquet file. If sweep and trace both bring the table (SHARED), only rows that are not there yet are inserted."""
    # not NOT IN, which reads every id that is there: this looks only among those between the file's least and greatest
    known = f" ANTI JOIN {table} USING ({SHARED[table]})" if table in SHARED else ""
    con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM read_parquet(?){known}", [file])

"""Loading of shards into the committer's file: rows and manifest row in one transaction, each shard exactly once."""

import json
from datetime import UTC, datetime

import duckdb

from ingest.store.shards import Shard, verify_shard
from ingest.store.transaction import transaction
from schema.errors import AtlasError

SHARED = {"document": "document_id", "sequence": "sequence_id", "position": "position_id"}
"""Table → its key, for the tables that both a sweep and a trace of one corpus fill. Rows that such a table has already are left as they are."""


def loaded_shards(con: duckdb.DuckDBPyConnection, run_id: int) -> set[int]:
    """Read the numbers of the run's shards that are in the file."""
    return {n for (n,) in con.execute("SELECT shard_id FROM shard WHERE run_id = ?", [run_id]).fetchall()}


def load_shard(con: duckdb.DuckDBPyConnection, shard: Shard) -> None:
    """Insert a shard and its manifest row in one transaction.

    Raises AtlasError if the files are damaged or their row counts are not those of the manifest, and duckdb.ConstraintException if the shard is loaded
    already; in each case nothing is inserted.
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
    """Insert the rows of one Parquet file. Raises AtlasError, before anything is inserted, if their number is not n_rows."""
    found = con.execute("SELECT count(*) FROM read_parquet(?)", [file]).fetchall()[0][0]
    if found != n_rows:
        raise AtlasError(f"{file} has {found} rows where the manifest says {n_rows}")
    insert_new(con, table, file)


def insert_new(con: duckdb.DuckDBPyConnection, table: str, file: str) -> None:
    """Insert the rows of a Parquet file by column name. If the table is in SHARED, only rows that it lacks are inserted."""
    # not NOT IN, which reads every id that is there: this looks only among those between the file's least and greatest
    known = f" ANTI JOIN {table} USING ({SHARED[table]})" if table in SHARED else ""
    con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM read_parquet(?){known}", [file])

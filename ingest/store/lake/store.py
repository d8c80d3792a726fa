"""A lake as the committer's store: files of shards become part of the tables where they are, and publishing merges the rows of the schema `parts`.

DuckLake does not keep two processes from loading the same shard: it has no keys, and inserts never conflict. So every transaction updates the one row of
`parts.committer`, which two processes cannot do at once, and only if the row still has the process's own term. A process that opens the lake begins a new
term, after which the process before it can load nothing more.
"""

import json
import os
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from ctypes import py_object, pythonapi
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from ingest.store.lake.marking import check_place, mark_place
from ingest.store.lake.place import Mark, Place
from ingest.store.lake.staging import Storage
from ingest.store.lake.tables import create_tables
from ingest.store.load import SHARED, insert_new, loaded_shards
from ingest.store.merges import MERGES, UNITS, merge_sql, parts
from ingest.store.shards import Shard, damaged_shard_error
from ingest.store.transaction import transaction
from schema.errors import AtlasError, Locked
from schema.open.lake import CATALOG, PUBLISHED, Lake, attach, catalogue, connect, read_lake
from schema.open.names import escape_quotes
from schema.open.store import OFFLINE, WRITER_MEMORY
from schema.patient import make_interrupt_safe
from schema.tables import metadata

if TYPE_CHECKING:
    from psycopg import Connection

LOCK = 0x61746C6173
"""Key of PostgreSQL's advisory lock that means: this lake is being written."""

PATIENCE = "1s"
"""Time to wait for the lock. PostgreSQL frees the lock only when it notices that a session is gone, and the next command may start before that."""

COUNTS = {"neuron_statistics": "n_positions", "head_statistics": "n_destinations"}
"""Merged table → its column that counts how much of a corpus was read; one table for each pass that fills merged tables."""

WHO = "SELECT a.application_name FROM pg_locks AS l INNER JOIN pg_stat_activity AS a USING (pid) WHERE l.locktype = 'advisory' AND l.granted"


@dataclass
class LakeStore:
    """An open lake in one term of its committer.

    identity: distinguishes the lake from others. n_commits: number of transactions committed in this term.
    """

    con: duckdb.DuckDBPyConnection
    lake: Lake
    path: Path
    identity: str
    mark: Mark
    term: int
    n_commits: int = 0

    @property
    def staging(self) -> Storage:
        return Storage(self.lake)

    @property
    def place(self) -> Place:
        return Place(self.lake.data)

    def remove(self, names: Collection[str]) -> None:
        """Remove files of the lake's own. Raises as `Place.remove`."""
        self.place.remove(self.identity, self.mark, names)

    def load(self, shard: Shard) -> None:
        with self.transaction():
            if shard.shard_id in loaded_shards(self.con, shard.run_id):
                raise AtlasError(f"shard {shard.shard_id} of run {shard.run_id} is in the lake already")
            for table, n_rows in shard.n_rows.items():
                self.enter(table, f"{shard.path}/{table}.parquet", n_rows, shard)
            self.con.execute(
                "INSERT INTO shard (run_id, shard_id, n_rows, sha256, worker, committed_at) VALUES (?, ?, ?, ?, ?, ?)",
                [shard.run_id, shard.shard_id, json.dumps(shard.n_rows), shard.sha256, shard.worker, datetime.now(UTC)],
            )

    def enter(self, table: str, file: str, n_rows: int, shard: Shard) -> None:
        """Add a Parquet file to a table. If the table is in SHARED, only rows that it lacks are added."""
        try:
            found = self.con.execute("SELECT num_rows FROM parquet_file_metadata(?)", [file]).fetchall()[0][0]
        except duckdb.Error as error:
            if is_away(error):
                raise
            raise damaged_shard_error(shard.path, f"{table}.parquet cannot be read: {str(error).splitlines()[0]}") from error
        if found != n_rows:
            raise damaged_shard_error(shard.path, f"{table}.parquet has {found} rows where the manifest says {n_rows}")
        if not n_rows:
            return
        if table in SHARED and (known := self.count_known_rows(table, file)):
            if known < n_rows:
                insert_new(self.con, table, file)
            return
        schema = "parts" if table in MERGES else "main"
        self.con.execute(f"CALL ducklake_add_data_files('{CATALOG}', '{table}', '{escape_quotes(file)}', schema => '{schema}', allow_missing => true)")

    def count_known_rows(self, table: str, file: str) -> int:
        """Count the rows of a file that the lake has already."""
        key = SHARED[table]
        first, last = self.con.execute(f"SELECT min({key}), max({key}) FROM read_parquet(?)", [file]).fetchall()[0]
        among = f"{key} BETWEEN {first} AND {last} AND {key} IN (SELECT {key} FROM read_parquet(?))"
        return int(self.con.execute(f"SELECT count(*) FROM {table} WHERE {among}", [file]).fetchall()[0][0])

    def publish(self) -> None:
        """Merge the statistics of each corpus that has new shards, read the result back, and mark the state that readers see."""
        with self.transaction():
            for corpus_id in self.outdated_corpora():
                for table in MERGES:
                    self.merge(table, corpus_id)
                    self.con.execute(f"SELECT bit_xor(hash(t)) FROM main.{table} AS t WHERE t.corpus_id = ?", [corpus_id]).fetchall()
            self.con.execute(f"CALL {CATALOG}.set_commit_message('{escape_quotes(whoami())}', '{PUBLISHED}')")

    def outdated_corpora(self) -> list[int]:
        """List the corpora whose merged statistics do not cover all positions of their parts."""
        found: set[int] = set()
        for table, n in COUNTS.items():
            of_one = f"SELECT corpus_id, sum({n}) AS n FROM {{}}.{table} WHERE layer = 0 AND {UNITS[table]} = 0 GROUP BY corpus_id"
            both = f"({of_one.format('parts')}) AS p LEFT JOIN ({of_one.format('main')}) AS m USING (corpus_id)"
            sql = f"SELECT corpus_id FROM {both} WHERE p.n IS DISTINCT FROM m.n"
            found |= {corpus_id for (corpus_id,) in self.con.execute(sql).fetchall()}
        return sorted(found)

    def merge(self, table: str, corpus_id: int) -> None:
        """Replace the merged rows of a table for one corpus, with one file per layer."""
        self.con.execute(f"DELETE FROM main.{table} WHERE corpus_id = ?", [corpus_id])
        order = ", ".join(metadata(1).tables[table].info["sort"])
        source = f"(FROM parts.{table} WHERE corpus_id = {corpus_id})"
        for _, group in groupby(parts(self.con, table, source), key=attrgetter("layer")):
            self.con.execute(f"CREATE OR REPLACE TEMP TABLE layer_rows AS FROM main.{table} LIMIT 0")
            for part in group:
                self.con.execute(f"INSERT INTO layer_rows BY NAME {merge_sql(table, source)}", part)
            self.con.execute(f"INSERT INTO main.{table} BY NAME FROM layer_rows ORDER BY {order}")
        self.con.execute("DROP TABLE IF EXISTS layer_rows")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction of this term. Raises Locked if another process has begun a later term."""
        try:
            with transaction(self.con):
                changed = self.con.execute("UPDATE parts.committer SET n_commits = n_commits + 1 WHERE term = ?", [self.term]).fetchall()
                if changed != [(1,)]:
                    raise taken_over_error(self.con, self.path)
                yield
            self.n_commits += 1
        except duckdb.TransactionException as error:
            if "onflict" in str(error):
                raise taken_over_error(self.con, self.path) from error
            raise


def is_away(error: duckdb.Error) -> bool:
    """Tell whether an error means that the storage did not answer, rather than that a file is missing or broken."""
    is_missing = getattr(error, "status_code", None) == HTTPStatus.NOT_FOUND or "No files found" in str(error)
    return isinstance(error, duckdb.IOException) and not is_missing


def taken_over_error(con: duckdb.DuckDBPyConnection, path: Path) -> Locked:
    who = con.execute("SELECT c.holder FROM parts.committer AS c").fetchall()[0][0]
    return Locked(f"the lake of {path} has been taken over by {who}; what this process loaded is kept. Let that process go on, or stop it and run this again.")


def whoami() -> str:
    return f"{socket.gethostname()} PID {os.getpid()}"


@contextmanager
def opened_lake(path: Path, *, claims: bool = False) -> Iterator[LakeStore]:
    """Open the lake that is described at `path`, for this process alone; its tables, and the mark of its place, are made if missing.

    claims: whether the user declares that all files in a place without a mark are this lake's. Raises Locked if another process has the lake, and AtlasError if
    the place is, or may be, another lake's.
    """
    lake = read_lake(path)
    with lock_lake(lake, path) as session, close_unless_dead(connect(lake, {**OFFLINE, "memory_limit": WRITER_MEMORY})) as opened:
        con = make_interrupt_safe(opened)
        check_place(session, lake)
        attach(con, lake)
        identity, mark = mark_place(session, con, lake, path, claims=claims)
        con.execute("SET ducklake_max_retry_count = 100")
        create_tables(con)
        con.execute(f"SET search_path = '{CATALOG}.parts,{CATALOG}.main'")
        yield LakeStore(con, lake, path, identity, mark, begin_term(con))


@contextmanager
def close_unless_dead(con: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Close a connection at the end, unless that would end the process.

    If the catalogue goes away in the middle of a commit, DuckDB's database becomes unusable with a transaction in it, and closing it in any way ends in
    std::terminate (DuckDB 1.5.5).
    """
    try:
        yield con
    finally:
        if is_dead(con):
            # so that its destructor does not close it either
            pythonapi.Py_IncRef(py_object(con))
        else:
            con.close()


def is_dead(con: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether the database of a connection takes no more queries."""
    try:
        con.execute("SELECT 1")
    except duckdb.Error as error:
        return isinstance(error, duckdb.FatalException)
    return False


@contextmanager
def lock_lake(lake: Lake, path: Path) -> Iterator["Connection"]:
    """Take the lake's lock, and yield the session that has it; the lock ends with the session, however the session ends.

    Raises Locked if another session keeps the lock for longer than PATIENCE.
    """
    with catalogue(lake, whoami()) as session:
        import psycopg

        try:
            with session.transaction():
                session.execute(f"SET LOCAL lock_timeout = '{PATIENCE}'")
                session.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        except psycopg.errors.LockNotAvailable:
            who = ", ".join(name for (name,) in session.execute(WHO).fetchall()) or "another process"
            raise Locked(f"the lake of {path} is being written by {who}. Wait for it, or stop it.") from None
        yield session


def begin_term(con: duckdb.DuckDBPyConnection) -> int:
    """Begin a new term of this process, which ends all earlier ones; return its number."""
    con.execute("UPDATE parts.committer SET term = term + 1, holder = ?", [whoami()])
    return int(con.execute("SELECT c.term FROM parts.committer AS c").fetchall()[0][0])

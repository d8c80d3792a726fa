"""The committer's file: how it is opened, how it is checked to belong to an atlas, and how it is removed if it contains nothing."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import duckdb

from ingest.store.committer import remove_work, staging_folder
from ingest.store.empty import lay_out
from ingest.store.transaction import transaction
from ingest.text.corpora.stdin import SPOOL_NAME
from schema.durable import put_in_place
from schema.errors import AtlasError, Locked, NotAnAtlas
from schema.open.lake import is_lake
from schema.open.logs import log_of
from schema.open.older import upgrade_tables
from schema.open.store import check_version, open_reader, open_writer
from schema.patient import defer_interrupts, make_interrupt_safe
from schema.plain import check_plain
from schema.table_digests import STORED


def open_work_file(target: Path, work: Path, d_model: int) -> duckdb.DuckDBPyConnection:
    """Open the committer's file: the file that a stopped run left, else a copy of the published atlas, else a new file."""
    file = work / "atlas.duckdb"
    if not target.exists() and holds_nothing(work):
        discard_database(file)
    if not file.exists():
        draft = work / "atlas.duckdb.tmp"
        discard_database(draft)
        if target.exists():
            shutil.copyfile(target, draft)
        else:
            with closing(make_interrupt_safe(open_writer(draft))) as con:
                lay_out(con, draft, d_model)
                con.execute("CHECKPOINT")
        put_in_place(draft, file)
    try:
        check_plain(file)
        con = make_interrupt_safe(open_writer(file))
        with close_on_failure(con):
            check_belongs(con, file, target)
    except Locked:
        raise
    except AtlasError as error:
        raise AtlasError(f"{error}. `atlas doctor {target}` says what can be done.") from error
    # what it was copied from, or a stopped run, may be of an earlier release
    with close_on_failure(con), transaction(con):
        upgrade_tables(con, d_model)
        # of what it was copied from: the next snapshot gets its own
        con.execute(f"DELETE FROM {STORED}")
    return con


@contextmanager
def close_on_failure(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Close a connection if the block fails."""
    try:
        yield
    except BaseException:
        con.close()
        raise


def check_belongs(con: duckdb.DuckDBPyConnection, file: Path, target: Path) -> None:
    """Raise NotAnAtlas if the open file lacks shards of the atlas at `target`, and so cannot be the committer's file of that atlas."""
    check_version(con, file)
    if not target.exists():
        return
    with closing(make_interrupt_safe(defer_interrupts(lambda: open_reader(target)))) as published:
        missing = loaded_shard_keys(published) - loaded_shard_keys(con)
    if missing:
        raise NotAnAtlas(f"{file} is not the file from which {target} was made: it lacks {len(missing)} of the shards of {target}")


def loaded_shard_keys(con: duckdb.DuckDBPyConnection) -> set[tuple[str, int, int]]:
    """Read the weights' sha256, the run and the number of every loaded shard."""
    return set(con.execute("SELECT m.weights_sha256, s.run_id, s.shard_id FROM shard AS s, model AS m").fetchall())


def holds_nothing(work: Path) -> bool:
    """Tell whether the committer's file has no shard, and no shard waits to be loaded; the file's model and runs then need not be kept."""
    file = work / "atlas.duckdb"
    if any(staging_folder(work).glob("*/[!.]*")):
        return False
    if not file.exists():
        return True
    with suppress(AtlasError, duckdb.Error):
        check_plain(file)
        with closing(make_interrupt_safe(open_writer(file))) as con:
            return con.execute("SELECT count(*) FROM shard").fetchall() == [(0,)]
    return False


def discard_database(file: Path) -> None:
    """Remove a database that is not needed, and its log."""
    for path in (file, log_of(file)):
        path.unlink(missing_ok=True)


def remove_unused_work(target: Path, work: Path) -> None:
    """Remove the working folder of an ingest that stored nothing, so that nothing is left of it. A folder with a text from standard input stays."""
    if (is_lake(target) or not target.exists()) and holds_nothing(work) and not (work / SPOOL_NAME).exists():
        remove_work(work)

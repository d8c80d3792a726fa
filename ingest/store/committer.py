"""The committer, the only process that writes an atlas: its working folder, the store into which it loads shards, and when it publishes.

A store is an atlas file (below) or a lake (ingest/store/lake/store.py). The store of an atlas file:

atlas.duckdb            the published snapshot
atlas.duckdb.work/
  lock                  locked by the process that works here; contains its PID
  atlas.duckdb          the committer's file, with its log
  begun                 progress on a shard that is not complete (ingest/workers/begun.py)
  snapshot.tmp          the next snapshot, being written
  shards/worker-0/      see ingest/store/shards.py
"""

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Protocol, TextIO

import duckdb

from ingest.store.load import load_shard, loaded_shards
from ingest.store.shards import Folder, Shard, Staging, remove, remove_staged
from ingest.store.snapshot import publish
from schema.errors import AtlasError, Locked
from schema.open.locks import is_handle_at, require_locks

PUBLISH_SHARE = 20
"""Multiple of the last publication's duration after which a run publishes the next snapshot."""

BEGUN = "begun"
"""Name of the file with the progress on a shard that is not complete (ingest/workers/begun.py)."""

OWN = (
    "lock", "shards", BEGUN, f"{BEGUN}.new", "atlas.duckdb", "atlas.duckdb.*", ".atlas.duckdb.opening-*", "snapshot.tmp", "snapshot.tmp.*", "stdin.txt",
    "stdin.partial",
)  # fmt: skip
"""Name patterns of an ingest's files in its working folder."""


def work_folder(target: Path) -> Path:
    return target.with_name(target.name + ".work")


class Store(Protocol):
    """The destination of shards. con: a connection whose tables have the rows of the shards, not merged."""

    con: duckdb.DuckDBPyConnection

    @property
    def staging(self) -> Staging: ...

    def load(self, shard: Shard) -> None:
        """Insert a shard's rows and its manifest row in one transaction. Raises an error if the shard is loaded already."""

    def publish(self) -> None:
        """Make all loaded rows, merged and sorted, visible to readers at once."""


@dataclass
class FileStore:
    """A working file; every snapshot is a merged and sorted copy of it at `target`."""

    con: duckdb.DuckDBPyConnection
    target: Path
    work: Path

    @property
    def staging(self) -> Folder:
        return Folder(staging_folder(self.work))

    def load(self, shard: Shard) -> None:
        load_shard(self.con, shard)

    def publish(self) -> None:
        publish(self.con, self.target, self.work)


@dataclass
class Committer:
    """Loader of shards into a store. Publishes at intervals (PUBLISH_SHARE)."""

    store: Store
    published_at: float
    publishing_took: float = 15.0

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        return self.store.con

    def commit_all(self, shards: Generator[Shard]) -> None:
        with closing(shards):
            for shard in shards:
                self.commit(shard)

    def commit(self, shard: Shard) -> None:
        self.store.load(shard)
        self.store.staging.discard(shard)
        if time.monotonic() - self.published_at > PUBLISH_SHARE * self.publishing_took:
            self.publish()

    def publish(self) -> None:
        start = time.monotonic()
        self.store.publish()
        self.published_at = time.monotonic()
        self.publishing_took = self.published_at - start


@contextmanager
def lock_work_folder(target: Path) -> Iterator[Path]:
    """Lock the working folder of an atlas for this process alone, and make it if missing. Raises Locked, with the PID, if another process has the lock.

    The lock is the operating system's, and ends with the process, however the process ends.
    """
    work = work_folder(target)
    while True:
        with suppress(FileExistsError):
            work.mkdir()
        if work.is_symlink() and work.exists():
            raise AtlasError(f"{work}, the working folder of {target}, is a symbolic link, and an ingest empties its working folder: remove the link first")
        try:
            lock = open_lock(work / "lock")
        except FileNotFoundError:
            if not work.is_symlink():
                continue  # who held it has just removed the folder
            raise AtlasError(f"{work} is a symbolic link to nothing, in the place of the working folder of {target}: remove it") from None
        except NotADirectoryError as error:
            raise AtlasError(f"{work} is a file in the place of the working folder of {target}: move it away") from error
        except IsADirectoryError as error:
            raise AtlasError(f"{work / 'lock'} is a folder, and should be the file that locks {work}: remove the folder {work / 'lock'}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Locked(f"{target} is being made by another process: {holder(lock)}. Wait for it, or stop it.") from error
            except OSError as error:
                raise AtlasError(f"cannot lock {work}: {error.strerror}. Without a lock, two ingests at once could overwrite each other's files") from error
            if is_handle_at(lock.fileno(), work / "lock"):
                require_locks(work / "lock")
                check_own(work)
                if os.fstat(lock.fileno()).st_size and not HOLDER.fullmatch(holder(lock)):
                    raise AtlasError(f"{work / 'lock'} {NO_LOCK}")
                lock.seek(0)
                lock.truncate(0)
                lock.write(f"PID {os.getpid()}")
                lock.flush()
                yield work
                return


def check_free(target: Path) -> None:
    """Raise Locked if another process has locked the working folder, and AtlasError as `lock_work_folder` does."""
    work = work_folder(target)
    if (work / "lock").exists() or work.is_symlink() or work.is_file():
        with lock_work_folder(target):
            pass


def check_own(work: Path) -> None:
    """Raise AtlasError if a working folder contains anything that no ingest makes: the folder is removed when the ingest is done."""
    strange = sorted(path.name for path in work.iterdir() if not is_own(path))
    if strange:
        raise AtlasError(f"{work} contains {', '.join(strange[:5])}, which no ingest makes: move it away, since the folder is removed in the end")


def is_own(path: Path) -> bool:
    """Tell whether an ingest uses this name in its working folder."""
    return any(fnmatch(path.name, pattern) for pattern in OWN)


HOLDER = re.compile(r"PID [0-9]{1,20}")
"""Pattern of the content of a lock file."""

NO_LOCK = "is not the lock file of an ingest, and would be overwritten: move it away"
"""Message for a file, a link or a pipe in the place of the lock file."""


def open_lock(path: Path) -> TextIO:
    """Open the lock file of a working folder, and create it if missing. Raises AtlasError for a link or a pipe, since the file is overwritten."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise AtlasError(f"{path} {NO_LOCK}") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise AtlasError(f"{path} {NO_LOCK}")
    return os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace")


def holder(lock: TextIO) -> str:
    """Name the process that holds a lock, such as 'PID 123'. If the lock file is empty, the process has just begun."""
    lock.seek(0)
    said = lock.read(64)
    if not said:
        return "one that has just begun"
    return said if HOLDER.fullmatch(said) else "one whose PID is unknown"


def remove_work(work: Path) -> None:
    """Remove a working folder that this process has locked; the lock file goes last, since another process may take the folder once it is gone.

    Files that do not belong to an ingest are kept, and so is the folder that contains them.
    """
    remove_staged(staging_folder(work))
    for path in work.iterdir():
        if is_own(path) and path.name not in ("lock", "shards"):
            remove(path)
    (work / "lock").unlink()
    with suppress(OSError):  # not empty: somebody has begun, or keeps something there
        work.rmdir()


def staging_folder(work: Path) -> Path:
    """Return the folder in which shards wait to be loaded; it contains a folder for each worker."""
    return work / "shards"


def recover(store: Store) -> None:
    """Load shards that were complete when the last run died, and remove shards that it had loaded but not yet removed.

    A shard of an unknown run, or one that must be loaded after a lost shard, is removed without being loaded: the next run computes it again.
    """
    runs = {run_id for (run_id,) in store.con.execute("SELECT r.run_id FROM run AS r").fetchall()}
    for shard in sorted(store.staging.waiting_shards(), key=lambda shard: len(shard.after)):
        is_next = shard.run_id in runs and all(other in loaded_shards(store.con, run_id) for run_id, other in shard.after)
        if is_next and shard.shard_id not in loaded_shards(store.con, shard.run_id):
            store.load(shard)
        store.staging.discard(shard)

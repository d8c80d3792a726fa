"""Lock files, each held by one process at a time. A file is held if it is locked, not if it exists, so a file that a killed process left is free."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schema.errors import AtlasError, Locked

PATIENCE = 60.0
"""Seconds to wait for another process: a change takes less than one second, and the results to be stored may have taken hours to compute."""

AGAIN = 0.05
"""Seconds between two tries."""

ANYBODY = 0o666
"""Mode of a lock file, which everybody may write: it is empty, and one that a killed process left must not keep out others who may change the guarded file."""


@contextmanager
def hold_lock_file(path: Path, refusal: str, patience: float | None = None) -> Iterator[None]:
    """Hold the lock file at `path` while the block runs, then remove it.

    Waits at most `patience` seconds (None: PATIENCE) for another process that holds the file, and then raises Locked with `refusal`. Raises AtlasError if the
    file cannot be made or locked.
    """
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    while (handle := try_lock(path)) is None:
        if time.monotonic() > end:
            raise Locked(refusal)
        time.sleep(AGAIN)
    try:
        yield
    finally:
        # while it is held: who has opened it meanwhile sees that it has lost its name
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def try_lock(path: Path) -> int | None:
    """Lock the file at `path`, making it if it does not exist, and return its handle; None if another process holds it.

    Raises AtlasError if the file cannot be made or locked, is not empty, or lies on a file system that does not enforce locks.
    """
    while True:
        try:
            handle = open_or_make(path)
        except OSError as error:
            raise AtlasError(f"cannot make the lock file {path}, which keeps two changes from being made at once: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                return None
            raise AtlasError(f"cannot lock {path}: {error.strerror}. Without a lock, one of two changes made at once would be lost") from error
        if is_handle_at(handle, path):
            try:
                require_locks(path)
                if os.fstat(handle).st_size:
                    raise AtlasError(f"{path} is not empty, so it is no lock file, and locking would remove it: move it away")
            except BaseException:
                os.close(handle)
                raise
            return handle
        os.close(handle)


def require_locks(path: Path) -> None:
    """Raise AtlasError if this process's lock keeps nobody out: some file systems accept a lock and do not enforce it."""
    with path.open("rb") as second:
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
    raise AtlasError(f"{path} lies on a file system that does not enforce locks (flock), so two processes could write to one file at once: use a local disk")


def open_or_make(path: Path) -> int:
    """Open the file at `path`, and return its handle. If the file does not exist, create it, writable by everybody."""
    while True:
        try:
            # O_CREAT beside O_EXCL alone: in a sticky folder Linux lets nobody open another's file with it
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            with suppress(FileExistsError):
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, ANYBODY)
                os.fchmod(handle, ANYBODY)
                return handle


def is_handle_at(handle: int, path: Path) -> bool:
    """Tell whether an open file is still at `path`: the process that held the lock before may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False

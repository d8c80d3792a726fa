"""Files that one process holds at a time. It is held by being locked and not by being there, so that what a killed process left is free."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schema.errors import AtlasError, Locked

PATIENCE = 60.0
"""Seconds to wait for another process: a change takes less than one, and what is to be kept may have taken hours to compute."""

AGAIN = 0.05
"""Seconds between two tries."""

ANYBODY = 0o666
"""Mode of a lock: it holds nothing, and one that a killed change left must not shut out who may change what it guards."""


@contextmanager
def hold_lock_file(path: Path, refusal: str, patience: float | None = None) -> Iterator[None]:
    """Hold the file of that name for the block; it is removed in the end.

    Waits for another process that holds it, `patience` seconds at most (None: PATIENCE). Raises Locked with `refusal` then, AtlasError where no file can be
    made or locked.
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
    """Lock a file, which is made if there is none, and return its handle; None where another process holds it."""
    while True:
        try:
            handle = open_or_make(path)
        except OSError as error:
            raise AtlasError(f"cannot make {path}, which two changes at once cannot both hold: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                return None
            raise AtlasError(f"cannot lock {path}, without which two changes at once would lose one of them: {error.strerror}") from error
        if is_handle_at(handle, path):
            try:
                require_locks(path)
                if os.fstat(handle).st_size:
                    raise AtlasError(f"{path} holds something, as no lock does, and would be removed: move it away")
            except BaseException:
                os.close(handle)
                raise
            return handle
        os.close(handle)


def require_locks(path: Path) -> None:
    """Raise AtlasError where the lock that this process has keeps nobody out: some file systems take a lock and hold none."""
    with path.open("rb") as second:
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
    raise AtlasError(f"{path} lies on a file system that holds no locks (flock), so that two at once would write into each other: use a local disk")


def open_or_make(path: Path) -> int:
    """Open the file, made if there is none, for anybody who may enter the folder; return its handle."""
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
    """Tell whether an open file still has that name: who held the lock before may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False

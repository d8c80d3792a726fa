"""Files that one process holds at a time. It is held by being locked and not by being there, so that what a killed process left is free."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schema.errors import AtlasError, Locked


@contextmanager
def alone(path: Path, refusal: str) -> Iterator[None]:
    """Hold the file of that name for the block; it is removed in the end.

    Raises Locked with `refusal` if another process holds it, AtlasError where no file can be made or locked.
    """
    handle = taken(path, refusal)
    try:
        yield
    finally:
        # while it is held: who has opened it meanwhile sees that it has lost its name
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def taken(path: Path, refusal: str) -> int:
    """The handle of a file that is made if there is none, and locked."""
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise AtlasError(f"cannot make {path}, which two changes at once cannot both hold: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                raise Locked(refusal) from error
            raise AtlasError(f"cannot lock {path}, without which two changes at once would lose one of them: {error.strerror}") from error
        if is_at(handle, path):
            if os.fstat(handle).st_size:
                os.close(handle)
                raise AtlasError(f"{path} holds something, as no lock does, and would be removed: move it away")
            return handle
        os.close(handle)


def is_at(handle: int, path: Path) -> bool:
    """Whether an open file still has that name: who held the lock before may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False

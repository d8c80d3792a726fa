"""Files that survive a loss of power: the bytes of a file are on the disk before its name is, and its name before anything relies on it."""

import os
from contextlib import suppress
from pathlib import Path


def fsync(path: Path) -> None:
    """Flush the bytes of a file, or the names in a folder, to the disk."""
    # in a shared folder a pipe may have got the name, which nobody ever writes to
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def put_in_place(draft: Path, target: Path) -> None:
    """Rename a complete file, or a folder whose files are on the disk, to `target`. After a loss of power, `target` is either unchanged or completely new."""
    fsync(draft)
    draft.replace(target)
    # who may write to a folder and not look into it cannot wait for its names
    with suppress(PermissionError):
        fsync(target.resolve().parent)

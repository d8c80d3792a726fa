"""What tells one published state of an atlas, and of the files beside it, from another.

Ingest replaces a file as a whole, so its inode and time do; a lake's snapshots are numbered.
"""

from collections.abc import Iterable
from pathlib import Path

from schema.lake import is_lake, published_version, read_lake

Stamp = tuple[int, int]
"""Inode or number, and time of the change in ns since 1970."""


def stamps(path: Path, beside: Iterable[Path]) -> tuple[Stamp | None, tuple[Stamp | None, ...]]:
    """Of the atlas at `path`, and of each file beside it; None where there is nothing."""
    return lake_stamp(path) if is_lake(path) else file_stamp(path), tuple(map(file_stamp, beside))


def file_stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns


def lake_stamp(path: Path) -> Stamp | None:
    published = published_version(read_lake(path))
    return (published.snapshot_id, published.time * 1000) if published else None

"""Which published state of an atlas is shown.

Ingest replaces a file as a whole, so its inode and time tell one state from another; a lake's snapshots are numbered.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from schema.beside import kinds
from schema.errors import AtlasError, NotAnAtlas
from schema.lake import is_lake, published_version, read_lake

MOST_SERVED = 8
"""Atlases of one server: every link asks which there are, and each stays open."""


class Replaced(AtlasError):
    """The atlas is not the one that was there."""


class Snapshot(NamedTuple):
    """An atlas and what lies beside it as they were published: what all caches are keyed by. Stamps are (inode or number, time of change in ns)."""

    path: str
    atlas: tuple[int, int]
    beside: tuple[tuple[int, int] | None, ...]

    @property
    def published(self) -> datetime:
        return datetime.fromtimestamp(self.atlas[1] / 1e9, UTC)


def latest(path: str) -> Snapshot:
    """What lies at the path now. Raises NotAnAtlas if nothing does."""
    atlas = lake_stamp(Path(path)) if is_lake(path) else stamp(Path(path))
    if atlas is None:
        raise NotAnAtlas(f"no atlas at {path}: it has gone. `atlas ingest` makes one")
    return Snapshot(path, atlas, tuple(stamp(kind.path(path)) for kind in kinds()))


def stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def lake_stamp(path: Path) -> tuple[int, int] | None:
    published = published_version(read_lake(path))
    return (published.snapshot_id, published.time * 1000) if published else None


def age(published: datetime, now: datetime) -> str:
    """'3 minutes', in the largest unit that counts to one or more."""
    seconds = max((now - published).total_seconds(), 0)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            n = int(seconds // length)
            return f"{n} {unit}{'s' if n > 1 else ''}"
    return "less than a minute"

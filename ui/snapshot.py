"""Snapshots: the published states of an atlas."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from schema.errors import AtlasError, NotAnAtlas
from schema.open.open_with_beside import Stamp, stamps

MOST_SERVED = 8
"""Maximum number of atlases of one server: every link looks all of them up, and each stays open."""


class SnapshotReplaced(AtlasError):
    """Error that is raised if the file at a snapshot's path is another atlas than the snapshot's."""


class Snapshot(NamedTuple):
    """An atlas and the files beside it as they were published; the key of all caches."""

    path: str
    atlas: Stamp
    beside: tuple[Stamp | None, ...]

    @property
    def published_at(self) -> datetime:
        return datetime.fromtimestamp(self.atlas[1] / 1e9, UTC)


def latest(path: str) -> Snapshot:
    """Read the stamps of the atlas that is at the path now, and of the files beside it. Raises NotAnAtlas if there is none."""
    atlas, beside = stamps(Path(path))
    if atlas is None:
        raise NotAnAtlas(f"there is no atlas at {path} any more. `atlas ingest` makes one")
    return Snapshot(path, atlas, beside)


def age(published: datetime, now: datetime) -> str:
    """Write an age in words, such as '3 minutes', in the largest unit of which it has one or more."""
    seconds = max((now - published).total_seconds(), 0)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            n = int(seconds // length)
            return f"{n} {unit}{'s' if n > 1 else ''}"
    return "less than a minute"

"""Opening of an atlas with its own rows of the files beside it, and stamps that show whether the atlas or one of these files was changed."""

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING

import duckdb

from schema.damage import describe_damage
from schema.errors import AtlasError, Locked
from schema.open.beside import attach_beside
from schema.open.companion import unreadable
from schema.open.kinds import kinds
from schema.open.lake import is_lake, published_version, read_lake
from schema.open.others import find_others
from schema.open.store import open_reader

if TYPE_CHECKING:
    import pyarrow as pa

ONE_AT_A_TIME = Lock()

TRIES = 4
"""Limit on the attempts to open an atlas and the files beside it, if they change while they are opened."""

Stamp = tuple[int, int]
"""Inode of a file (every change replaces the file), or number of a lake's published snapshot; and the time of its last change, ns since 1970."""


def open_with_beside(path: Path | str, *, memory: str = "4GB", config: Mapping[str, object] = MappingProxyType({})) -> duckdb.DuckDBPyConnection:
    """Open an atlas as `open_reader` does, with the files beside it attached, except their rows of another model or text.

    Raises Locked if the files change again and again meanwhile.
    """
    # connections to one file may share what is attached, and another thread is not to find it before it is filled; a lake may be waited for
    with nullcontext() if is_lake(path) else ONE_AT_A_TIME:
        for _ in range(TRIES):
            before = stamps(Path(path))
            con = open_reader(path, memory=memory, attach=attach_beside, config=config)
            try:
                # which rows are whose can be asked only of a connection that is locked down, and that attaches no more
                others = others_by_kind(con, Path(path))
            except BaseException:
                con.close()
                raise
            if not others:
                return con
            con.close()
            con = open_reader(path, memory=memory, attach=partial(attach_beside, others=others), config=config)
            # of another atlas, or another file, they may be other rows
            if stamps(Path(path)) == before:
                return con
            con.close()
        raise Locked(f"the atlas {path}, or a file beside it, is changed again and again while it is opened: try again in a moment")


def others_by_kind(con: duckdb.DuckDBPyConnection, path: Path) -> "dict[str, pa.Table]":
    """Find the rows of another model or text in the files beside an atlas: kind → rows; kinds that have none are left out."""
    found = {}
    for kind in kinds():
        try:
            if kind.others_sql and kind.path(path).exists() and (others := find_others(con, kind.others_sql)) is not None:
                found[kind.name] = others
        except duckdb.Error as error:
            # either may be damaged
            if (said := describe_damage(error)) is None:
                raise unreadable(kind.path(path), kind, error) from error
            raise AtlasError(f"{path}, or {kind.path(path)} beside it, is damaged: {said}. `atlas verify {path}` says which") from error
    return found


def stamps(path: Path) -> tuple[Stamp | None, tuple[Stamp | None, ...]]:
    """Read the stamps of the atlas at `path`, and of the file of each kind beside it; None for a file that does not exist."""
    return lake_stamp(path) if is_lake(path) else file_stamp(path), tuple(file_stamp(kind.path(path)) for kind in kinds())


def file_stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns


def lake_stamp(path: Path) -> Stamp | None:
    published = published_version(read_lake(path))
    return (published.snapshot_id, published.time * 1000) if published else None

"""What an open atlas leaves out of the files beside it (schema/others.py), in words."""

import shlex
from pathlib import Path

import duckdb

from atlas.cursors import fetch_rows
from atlas.export.visible import visible_line
from schema.access import owner
from schema.beside import kinds, orphans, unreadable_files


def left_out(con: duckdb.DuckDBPyConnection, catalog: str) -> str:
    """What is left out of the file that is attached by this name; '' where nothing is, and for the atlas itself."""
    if not any(kind.name == catalog and kind.others for kind in kinds()):
        return ""
    rows = fetch_rows(con, f"SELECT l.reason, l.n FROM {catalog}.left_out AS l ORDER BY l.reason")
    counts = " and ".join(f"{n:,} of another {reason}" for reason, n in rows)
    return f"{catalog}: {counts} than this atlas's, left out here and kept in their file" if counts else ""


def all_left_out(con: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    """The same of every kind that has any, of files of the atlas at `path` that this user may not read, and of those that no atlas has."""
    return [*shut_files(path), *orphaned_files(path), *(said for kind in kinds() if (said := left_out(con, kind.name)))]


def orphaned_files(path: Path) -> list[str]:
    said = "{} belongs to no atlas here: if this one had that name, `mv {} {}` brings it along"
    return [visible_line(said.format(file.name, shlex.quote(file.name), shlex.quote(own.name))) for file, own in orphans(path)]


def shut_files(path: Path) -> list[str]:
    said = "is left out, for it cannot be read by you: ask {} for `chmod --reference={} {}`"
    return [visible_line(f"{file.name} {said.format(owner(file), shlex.quote(path.name), shlex.quote(file.name))}") for file in unreadable_files(path)]

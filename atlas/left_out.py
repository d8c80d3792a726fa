"""Descriptions of what an atlas leaves out of the files beside it: rows that it does not show, and whole files that it does not read."""

import os
import shlex
from pathlib import Path

import duckdb

from atlas.cursors import fetch_rows, own_cursor
from atlas.export.visible import visible_line
from schema.open.drafts import is_readable, owner
from schema.open.kinds import kinds
from schema.open.others import LEFT_OUT
from schema.release import stored_tables


def describe_left_out(con: duckdb.DuckDBPyConnection, catalog: str) -> str:
    """Describe the rows of the file attached as `catalog` that are not shown (schema/open/others.py); '' if there are none, or for the atlas itself."""
    with own_cursor(con) as cursor:
        if (catalog, LEFT_OUT) not in stored_tables(cursor):
            return ""
    rows = fetch_rows(con, f"SELECT l.reason, l.n FROM {catalog}.{LEFT_OUT} AS l ORDER BY l.reason")
    counts = " and ".join(f"{n:,} of another {reason}" for reason, n in rows)
    return f"{catalog}: {counts} than this atlas's, not shown here, but kept in the file"


def list_left_out(con: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    """Describe the files of the atlas at `path` that this user may not read, the files that belong to no atlas, and the rows left out of each kind of file."""
    return [*shut_files(path), *orphaned_files(path), *(said for kind in kinds() if (said := describe_left_out(con, kind.name)))]


def shut_files(path: Path) -> list[str]:
    """List files beside the atlas that belong to another user and that this user may not read, each with the command that its owner should run."""
    files = (kind.file(path) for kind in kinds())
    said = "{} is not shown, because you may not read it: ask {} to run `chmod --reference={} {}`"
    shut = [file for file in files if file.exists() and not is_readable(file)]
    return [visible_line(said.format(file.name, owner(file), shlex.quote(path.name), shlex.quote(file.name))) for file in shut]


def orphaned_files(path: Path) -> list[str]:
    """List files in the folder that belong to no atlas there, of kinds of which this atlas has no file: the atlas may have been renamed without them."""
    found = []
    for kind in kinds():
        own, end = kind.path(path), f".{kind.name}.duckdb"
        if os.path.lexists(own):
            continue
        for file in sorted(path.parent.glob(f"*{end}")):
            atlas = str(file).removesuffix(end)
            if not os.path.lexists(f"{atlas}.duckdb") and not os.path.lexists(f"{atlas}.lake"):
                move = f"`mv {shlex.quote(file.name)} {shlex.quote(own.name)}`"
                found.append(visible_line(f"{file.name} belongs to no atlas in this folder: if this atlas had that name, {move} renames the file to match"))
    return found

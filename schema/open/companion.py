"""A single file beside an atlas: attaching it, and writing it anew with this release's views and questions."""

import re
import tempfile
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from schema.damage import describe_damage
from schema.errors import NO_SPACE, AtlasError, Locked
from schema.open.kinds import Companion, creation_sql
from schema.open.names import OPENING, escape_quotes, private_hardlink
from schema.open.others import leave_out
from schema.open.store import LOCKED, STORAGE_VERSION, is_sqlite, lock_holder, open_writer
from schema.release import stored_tables
from schema.table_digests import STORED

if TYPE_CHECKING:
    import pyarrow as pa


def attach(con: duckdb.DuckDBPyConnection, file: str, name: str, mode: str) -> bool:
    """Attach a file; return False if it was attached already."""
    try:
        con.execute(f"ATTACH '{file}' AS {name} ({mode})")
    except (duckdb.BinderException, duckdb.PermissionException):
        # a connection that shares it may be locked down already
        if (name,) not in con.execute("SELECT d.database_name FROM system.main.duckdb_databases() AS d").fetchall():
            raise
        return False
    return True


def attach_blank(con: duckdb.DuckDBPyConnection, kind: Companion) -> None:
    """Attach a database in memory with the kind's tables, empty, and its views and questions."""
    if attach(con, ":memory:", kind.name, "READ_WRITE"):
        con.execute(creation_sql(kind))


def require_duckdb(target: Path, kind: Companion) -> None:
    """Raise AtlasError for a folder, a pipe or a SQLite file, before DuckDB opens it."""
    if not target.is_file() or is_sqlite(target):
        raise AtlasError(f"cannot read the {kind.name} in {target}: it is no DuckDB file. Move it away to go on without them.")


def attach_file(con: duckdb.DuckDBPyConnection, target: Path, kind: Companion, name: str | None = None, own: Path | None = None) -> None:
    """Attach a file of this version read-only. Raises AtlasError for another version.

    name: the name of the database, if it is not the kind's. own: a second name that the file already has.
    """
    name = name or kind.name
    require_duckdb(target, kind)
    try:
        with private_hardlink(target) if own is None else nullcontext(own) as own:
            # not IF NOT EXISTS: DuckDB 1.5.5 then waits for ever where it takes this database for an earlier one that had the file open
            con.execute(f"ATTACH '{escape_quotes(own)}' AS {name} (READ_ONLY)")
        is_ours = (name, kind.label) in stored_tables(con)
        versions = con.execute(f"SELECT version FROM {name}.{kind.label} LIMIT 2").fetchall() if is_ours else []
    except duckdb.Error as error:
        raise unreadable(target, kind, error) from error
    if versions != [(kind.version,)]:
        raise AtlasError(
            f"{target} has version {', '.join(str(v) for (v,) in versions) or 'none'}; this is activation-atlas for {kind.name} of version "
            f"{kind.version}. Install the release that made it, or move it away."
        )


def attach_draft(con: duckdb.DuckDBPyConnection, draft: Path, kind: Companion) -> None:
    """Attach a new file for writing."""
    try:
        con.execute(f"ATTACH '{escape_quotes(draft)}' AS {kind.name} (STORAGE_VERSION '{STORAGE_VERSION}')")
    except duckdb.IOException as error:
        raise AtlasError(f"cannot write {draft}: {str(error).splitlines()[0]}") from error


def fill_companion(con: duckdb.DuckDBPyConnection, former: Path, kind: Companion) -> None:
    """Create the tables, views and questions of this release in the kind's database, and copy the former file's rows, by the columns that both have."""
    con.execute(creation_sql(kind))
    if former.exists():
        attach_file(con, former, kind, "former")
        both: dict[str, list[str]] = {}
        for table, column in sorted(columns(con, kind.name) & columns(con, "former")):
            both.setdefault(table, []).append(f'"{column}"')
        try:
            for table, names in both.items():
                if table not in (kind.label, STORED):
                    con.execute(f"INSERT INTO {kind.name}.{table} BY NAME SELECT {', '.join(names)} FROM former.{table}")
        except duckdb.Error as error:
            raise unreadable(former, kind, error) from error
        con.execute("DETACH former")


def columns(con: duckdb.DuckDBPyConnection, database: str) -> set[tuple[str, str]]:
    """List (table, column) of every stored table of a database."""
    sql = "SELECT c.table_name, c.column_name FROM duckdb_columns() AS c WHERE c.database_name = ?"
    stored = tables(con, database)
    return {(table, column) for table, column in con.execute(sql, [database]).fetchall() if table in stored}


def tables(con: duckdb.DuckDBPyConnection, database: str) -> set[str]:
    return {table for name, table in stored_tables(con) if name == database}


def write_file(target: Path, former: Path, kind: Companion, others: "pa.Table | None" = None) -> None:
    """Write a new file with the rows of the former one, if that exists, except `others`."""
    with closing(open_writer(":memory:")) as con:
        attach_draft(con, target, kind)
        fill_companion(con, former, kind)
        if others is not None:
            leave_out(con, kind.name, others, kind.hanging)
        con.execute(f"CHECKPOINT {kind.name}")
        con.execute(f"DETACH {kind.name}")


def unreadable(target: Path, kind: Companion, error: duckdb.Error) -> AtlasError:
    if LOCKED in str(error):
        return Locked(f"{target}, which holds the {kind.name}, is in use by another process: {lock_holder(error)}. Wait for it, or close it there.")
    if any(text in str(error) for text in NO_SPACE):
        # where its rows are written anew, for this release or for the atlas that is opened
        return AtlasError(
            f"no space left to rewrite the {kind.name} of {target}: free some space on its disk, or on that of {tempfile.gettempdir()}. The file is unchanged."
        )
    said = re.sub(rf"[^\s\"]*/\.{re.escape(target.name)}\.{OPENING}[^/]*/", "", describe_damage(error) or str(error).splitlines()[0])
    return AtlasError(f"cannot read the {kind.name} in {target}: {said}. Move the file away to go on without them.")

"""Migrations of tables that existing atlases have, one file each, in the order of their numbers; tables and columns that are only added need none.

A file begins with a description of the change, and with a query that gives rows if an atlas still needs it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

import duckdb

from schema.errors import AtlasError

HEADER = re.compile(r"-- change: (?P<change>.+)\n-- due: (?P<due>.+)\n")


@dataclass(frozen=True)
class Migration:
    """A change to existing tables. The query `due` gives rows if `sql` is still to be run."""

    name: str
    change: str
    due: str
    sql: str


def migrations() -> Iterator[Migration]:
    for file in sorted((f for f in files(__name__).iterdir() if f.name.endswith(".sql")), key=lambda f: f.name):
        sql = file.read_text(encoding="utf-8")
        header = HEADER.match(sql)
        if header is None:
            raise ValueError(f"schema/migrations/{file.name} begins with what changes, and with when it is due")
        yield Migration(file.name.removesuffix(".sql"), header["change"], header["due"], sql)


def migrate(con: duckdb.DuckDBPyConnection) -> bool:
    """Run the migrations that are due in the current database, within the caller's transaction; return whether any was. Tables made anew have no comments.

    Raises AtlasError if the tables are not those of the release that the atlas is said to be of.
    """
    is_changed = False
    for migration in migrations():
        if con.execute(migration.due).fetchall():
            is_changed = True
            try:
                con.execute(migration.sql)
            except duckdb.Error as error:
                raise AtlasError(
                    f"this atlas cannot be brought up to this release ({migration.change}): {str(error).splitlines()[0]}. It is read as it is; "
                    "ingest into a new file"
                ) from error
    return is_changed

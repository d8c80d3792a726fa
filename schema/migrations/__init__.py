"""Migrations of tables that existing atlases have, one file each, in the order of their numbers; tables and columns that are only added need none.

A file begins with a description of the change, and with a query that returns rows if an atlas still needs the change.
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
    """A change to existing tables. The query `due` returns rows if `sql` is still to be run."""

    name: str
    change: str
    due: str
    sql: str


def migrations() -> Iterator[Migration]:
    for file in sorted((f for f in files(__name__).iterdir() if f.name.endswith(".sql")), key=lambda f: f.name):
        sql = file.read_text(encoding="utf-8")
        header = HEADER.match(sql)
        if header is None:
            raise ValueError(f"schema/migrations/{file.name} must begin with the lines `-- change: …` and `-- due: …`")
        yield Migration(file.name.removesuffix(".sql"), header["change"], header["due"], sql)


def migrate(con: duckdb.DuckDBPyConnection) -> bool:
    """Run the migrations that are due in the current database, within the caller's transaction; return whether any was run.

    A table that a migration makes anew has no comments. Raises AtlasError if a migration fails: the tables are then not those of the atlas's release.
    """
    is_changed = False
    for migration in migrations():
        if con.execute(migration.due).fetchall():
            is_changed = True
            try:
                con.execute(migration.sql)
            except duckdb.Error as error:
                raise AtlasError(
                    f"this atlas cannot be upgraded to this release ({migration.change}): {str(error).splitlines()[0]}. It can still be read; "
                    "ingest into a new file"
                ) from error
    return is_changed

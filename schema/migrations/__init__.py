"""What changed in tables that atlases already have, a file each in the order of their numbers; tables and columns that were only added need none.

A file begins with what changes, and with a query that gives rows where an atlas has not been changed yet.
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
    """`due` gives rows where `sql` is still to be run."""

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
    """Change what is due in the current database, within the caller's transaction, and say whether anything was. Tables made anew have no comments.

    Raises AtlasError where tables are not those of the release that it is said to be of.
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

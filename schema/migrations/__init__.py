"""What changed in tables that atlases already have, a file each in the order of their numbers; tables and columns that were only added need none.

A file begins with what changes, and with a query that gives rows where an atlas has not been changed yet.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

import duckdb

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


def migrate(con: duckdb.DuckDBPyConnection) -> None:
    """Change what is due in the current database, within the caller's transaction."""
    for migration in migrations():
        if con.execute(migration.due).fetchall():
            con.execute(migration.sql)

"""NAME.annotations.duckdb: made, attached to an open atlas, and changed as a whole.

A change writes a new file and puts it in the old one's place, so an atlas that is open keeps what it attached, and a change that fails leaves nothing.
The file holds its own views and questions, so that it answers in any DuckDB: ATTACH 'NAME.annotations.duckdb' AS annotations.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import duckdb

from atlas.questions import macro_files
from schema.annotation_tables import ANNOTATION_VERSION, annotation_metadata
from schema.build import table_ddl
from schema.errors import AtlasError, Locked
from schema.store import STORAGE_VERSION, annotation_path, open_writer
from schema.terms import ANNOTATION_CATALOG as CATALOG

VIEWS = Path(__file__).parent / "views"
DATABASES = "SELECT d.database_name FROM duckdb_databases() AS d"
TABLES = f"SELECT t.table_name FROM duckdb_tables() AS t WHERE t.database_name = '{CATALOG}'"


def attach_annotations(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Attach the annotations of the atlas at `path` read-only; without a file, tables of the same shape with no rows.

    Connections of one process to one atlas share what is attached. Raises AtlasError if the file cannot be read or is of another version.
    """
    if con.execute("SELECT current_database()").fetchall() == [(CATALOG,)]:
        raise AtlasError(f"an atlas cannot be called {CATALOG}, as its annotations are in SQL: rename {path}")
    if (CATALOG,) in con.execute(DATABASES).fetchall():
        return
    target = annotation_path(path)
    if target.exists():
        attach_file(con, target)
        if derived_of(con) == derived_sha256():
            return
        con.execute(f"DETACH {CATALOG}")
        attach_copy(con, target)
    else:
        attach_blank(con)


def attach_blank(con: duckdb.DuckDBPyConnection) -> None:
    """Attach tables and questions with no rows."""
    with tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        path = Path(folder) / "blank.duckdb"
        path.write_bytes(blank())
        attach_file(con, path)


def attach_copy(con: duckdb.DuckDBPyConnection, target: Path) -> None:
    """Attach the rows of a file that another release wrote, under this one's questions."""
    with tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        copy = Path(folder) / target.name
        write_file(copy, target)
        attach_file(con, copy)


def attach_file(con: duckdb.DuckDBPyConnection, target: Path, name: str = CATALOG) -> None:
    """Attach an annotation file read-only, of this version and no other."""
    try:
        con.execute(f"ATTACH IF NOT EXISTS '{quoted(target)}' AS {name} (READ_ONLY)")
        versions = con.execute(f"SELECT version FROM {name}.annotation_schema").fetchall()
    except duckdb.Error as error:
        raise AtlasError(f"cannot read the annotations in {target}: {str(error).splitlines()[0]}. Move the file away to go on without them.") from error
    if versions != [(ANNOTATION_VERSION,)]:
        raise AtlasError(
            f"{target} has version {', '.join(str(v) for (v,) in versions) or 'none'}; this is activation-atlas for annotations of version "
            f"{ANNOTATION_VERSION}. Install the release that made it, or move it away."
        )


def derived_of(con: duckdb.DuckDBPyConnection) -> str:
    return str(con.execute(f"SELECT derived_sha256 FROM {CATALOG}.annotation_schema").fetchall()[0][0])


@contextmanager
def changing(path: Path | str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the annotations of the atlas at `path` as the database `annotations`, to be changed; kept if the block ends well.

    Raises Locked if another process is changing them.
    """
    target = annotation_path(path)
    draft = target.with_name(f"{target.name}.tmp")
    with closing(open_writer(":memory:")) as con:
        attach_draft(con, draft)
        try:
            fill(con, target)
            yield con
            con.execute(f"CHECKPOINT {CATALOG}")
            # before it is let go, so that nobody else can begin from the old file meanwhile
            draft.rename(target)
        except BaseException:
            discard(draft)
            raise
        finally:
            con.execute(f"DETACH {CATALOG}")


def attach_draft(con: duckdb.DuckDBPyConnection, draft: Path) -> None:
    """Attach an empty file for writing, which locks it."""
    attach = f"ATTACH '{quoted(draft)}' AS {CATALOG} (STORAGE_VERSION '{STORAGE_VERSION}')"
    try:
        con.execute(attach)
        if con.execute(TABLES).fetchall():
            # of a change that died
            con.execute(f"DETACH {CATALOG}")
            discard(draft)
            con.execute(attach)
    except duckdb.IOException as error:
        if "lock" in str(error):
            raise Locked(f"{draft.name} is in use: another process is changing the annotations. Wait for it.") from error
        raise AtlasError(f"cannot write {draft}: {str(error).splitlines()[0]}") from error


def discard(draft: Path) -> None:
    for path in (draft, Path(f"{draft}.wal")):
        path.unlink(missing_ok=True)


def fill(con: duckdb.DuckDBPyConnection, former: Path) -> None:
    """Create every table, the rows of the former file in them, and this release's views and questions, in the database `annotations`."""
    tables = list(annotation_metadata().tables.values())
    ddl = [statement for table in tables for statement in table_ddl(table)]
    version = f"INSERT INTO {CATALOG}.annotation_schema VALUES ({ANNOTATION_VERSION}, '{derived_sha256()}')"
    # one statement, so that the file is written to once: every atlas without annotations is opened with a blank one
    con.execute(";\n".join(["BEGIN", *ddl, *derived(), version, "COMMIT"]))
    if former.exists():
        attach_file(con, former, "former")
        for table in tables:
            if table.name != "annotation_schema":
                con.execute(f"INSERT INTO {CATALOG}.{table.name} BY NAME FROM former.{table.name}")
        con.execute("DETACH former")


def write_file(target: Path, former: Path) -> None:
    """Write a new annotation file with the rows of a former one, if that exists."""
    with closing(open_writer(":memory:")) as con:
        attach_draft(con, target)
        fill(con, former)
        con.execute(f"CHECKPOINT {CATALOG}")
        con.execute(f"DETACH {CATALOG}")


@cache
def blank() -> bytes:
    """An annotation file with no rows."""
    with tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        path = Path(folder) / "blank.duckdb"
        write_file(path, path.with_name("none"))
        return path.read_bytes()


def derived() -> list[str]:
    """SQL of the views, in the order of their names, then of the questions."""
    return [*(path.read_text(encoding="utf-8") for path in sorted(VIEWS.glob("*.sql"))), *macro_files(CATALOG).values()]


@cache
def derived_sha256() -> str:
    return hashlib.sha256("\n".join(derived()).encode()).hexdigest()


def quoted(path: Path) -> str:
    return str(path).replace("'", "''")

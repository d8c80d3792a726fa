"""Attach NAME.annotations.duckdb to an atlas that is being opened: read-only, by a name that is gone when it is open."""

import hashlib
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path

import duckdb

from atlas.questions import macro_files
from schema import ANNOTATION_VERSION
from schema.errors import AtlasError
from schema.release import stored_tables
from schema.store import annotation_path, own_name
from schema.terms import ANNOTATION_CATALOG as CATALOG

VIEWS = Path(__file__).parent / "views"
DATABASES = "SELECT d.database_name FROM duckdb_databases() AS d"


def attach_annotations(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Attach the annotations of the atlas at `path` read-only; without a file, tables of the same shape with no rows.

    Connections of one process to one atlas share what is attached. Raises AtlasError if the file cannot be read or is of another version.
    """
    if con.execute("SELECT current_database()").fetchall() == [(CATALOG,)]:
        raise AtlasError(f"an atlas cannot be called {CATALOG}, as its annotations are in SQL: rename {path}")
    if (CATALOG,) in con.execute(DATABASES).fetchall():
        return
    target = annotation_path(path)
    if not target.exists():
        attach_blank(con)
        return
    attach_file(con, target)
    if derived_of(con) != derived_sha256():
        con.execute(f"DETACH {CATALOG}")
        attach_copy(con, target)


def attach_blank(con: duckdb.DuckDBPyConnection) -> None:
    """Attach tables and questions with no rows, in memory."""
    con.execute(f"ATTACH ':memory:' AS {CATALOG} (READ_WRITE)")
    con.execute(filling())


def attach_copy(con: duckdb.DuckDBPyConnection, target: Path) -> None:
    """Attach the rows of a file that another release wrote, under this one's questions."""
    from atlas.annotations.store import write_file

    with tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        copy = Path(folder) / target.name
        write_file(copy, target)
        attach_file(con, copy)


def attach_file(con: duckdb.DuckDBPyConnection, target: Path, name: str = CATALOG) -> None:
    """Attach an annotation file read-only, of this version and no other."""
    try:
        with own_name(target) as own:
            con.execute(f"ATTACH IF NOT EXISTS '{quoted(own)}' AS {name} (READ_ONLY)")
        is_ours = (name, "annotation_schema") in stored_tables(con)
        versions = con.execute(f"SELECT version FROM {name}.annotation_schema").fetchall() if is_ours else []
    except duckdb.Error as error:
        raise AtlasError(f"cannot read the annotations in {target}: {str(error).splitlines()[0]}. Move the file away to go on without them.") from error
    if versions != [(ANNOTATION_VERSION,)]:
        raise AtlasError(
            f"{target} has version {', '.join(str(v) for (v,) in versions) or 'none'}; this is activation-atlas for annotations of version "
            f"{ANNOTATION_VERSION}. Install the release that made it, or move it away."
        )


def derived_of(con: duckdb.DuckDBPyConnection) -> str:
    return str(con.execute(f"SELECT derived_sha256 FROM {CATALOG}.annotation_schema").fetchall()[0][0])


@cache
def filling() -> str:
    """SQL that fills the empty database `annotations`; one statement, so that a file is written to once."""
    tables = (files("schema") / "annotation_tables.sql").read_text(encoding="utf-8")
    version = f"INSERT INTO {CATALOG}.annotation_schema VALUES ({ANNOTATION_VERSION}, '{derived_sha256()}')"
    return ";\n".join(["BEGIN", tables, *derived(), version, "COMMIT"])


def derived() -> list[str]:
    """SQL of the views, in the order of their names, then of the questions."""
    return [*(path.read_text(encoding="utf-8") for path in sorted(VIEWS.glob("*.sql"))), *macro_files(CATALOG).values()]


@cache
def derived_sha256() -> str:
    return hashlib.sha256("\n".join(derived()).encode()).hexdigest()


def quoted(path: Path) -> str:
    return str(path).replace("'", "''")

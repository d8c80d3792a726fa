"""NAME.annotations.duckdb: made, and changed as a whole.

A change writes a new file and puts it in the old one's place, so an atlas that is open keeps what it attached, and a change that fails leaves nothing.
The file holds its own views and questions, so that it answers in any DuckDB: ATTACH 'NAME.annotations.duckdb' AS annotations.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb

from atlas.annotations.attaching import attach_file, filling, quoted
from schema.errors import AtlasError, Locked
from schema.logs import check_log
from schema.store import LOCKED, STORAGE_VERSION, annotation_path, open_writer
from schema.terms import ANNOTATION_CATALOG as CATALOG

TABLES = f"SELECT t.table_name FROM duckdb_tables() AS t WHERE t.database_name = '{CATALOG}'"


@contextmanager
def changing(path: Path | str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the annotations of the atlas at `path` as the database `annotations`, to be changed; kept if the block ends well.

    Raises Locked if another process is changing them, and AtlasError if they have a log.
    """
    target = annotation_path(path)
    check_log(target)
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
        if LOCKED in str(error):
            raise Locked(f"{draft.name} is in use: another process is changing the annotations. Wait for it.") from error
        raise AtlasError(f"cannot write {draft}: {str(error).splitlines()[0]}") from error


def discard(draft: Path) -> None:
    for path in (draft, Path(f"{draft}.wal")):
        path.unlink(missing_ok=True)


def fill(con: duckdb.DuckDBPyConnection, former: Path) -> None:
    """Create every table, the rows of the former file in them, and this release's views and questions, in the database `annotations`."""
    con.execute(filling())
    if former.exists():
        attach_file(con, former, "former")
        for (table,) in con.execute(TABLES).fetchall():
            if table != "annotation_schema":
                con.execute(f"INSERT INTO {CATALOG}.{table} BY NAME FROM former.{table}")
        con.execute("DETACH former")


def write_file(target: Path, former: Path) -> None:
    """Write a new annotation file with the rows of a former one, if that exists."""
    with closing(open_writer(":memory:")) as con:
        attach_draft(con, target)
        fill(con, former)
        con.execute(f"CHECKPOINT {CATALOG}")
        con.execute(f"DETACH {CATALOG}")

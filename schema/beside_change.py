"""Files beside an atlas: made, and changed as a whole.

A change writes a new file and puts it in the old one's place, so an atlas that is open keeps what it attached, and a change that fails leaves nothing.
A file answers in any DuckDB: ATTACH 'NAME.annotations.duckdb' AS annotations.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb

from schema.beside import Beside, attach_file, filling, quoted
from schema.errors import AtlasError, Locked
from schema.logs import check_log
from schema.release import stored_tables
from schema.store import LOCKED, STORAGE_VERSION, open_writer


@contextmanager
def changing(kind: Beside, path: Path | str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the file beside the atlas at `path` as the database of its kind, to be changed; kept if the block ends well.

    Raises Locked if another process is changing it, and AtlasError if it has a log.
    """
    target = kind.path(path)
    check_log(target)
    draft = target.with_name(f"{target.name}.tmp")
    with closing(open_writer(":memory:")) as con:
        attach_draft(con, draft, kind)
        try:
            fill(con, target, kind)
            yield con
            con.execute(f"CHECKPOINT {kind.name}")
            # before it is let go, so that nobody else can begin from the old file meanwhile
            draft.rename(target)
        except BaseException:
            discard(draft)
            raise
        finally:
            con.execute(f"DETACH {kind.name}")


def attach_draft(con: duckdb.DuckDBPyConnection, draft: Path, kind: Beside) -> None:
    """Attach an empty file for writing, which locks it."""
    attach = f"ATTACH '{quoted(draft)}' AS {kind.name} (STORAGE_VERSION '{STORAGE_VERSION}')"
    try:
        con.execute(attach)
        if tables(con, kind.name):
            # of a change that died
            con.execute(f"DETACH {kind.name}")
            discard(draft)
            con.execute(attach)
    except duckdb.IOException as error:
        if LOCKED in str(error):
            raise Locked(f"{draft.name} is in use: another process is changing the {kind.name}. Wait for it.") from error
        raise AtlasError(f"cannot write {draft}: {str(error).splitlines()[0]}") from error


def tables(con: duckdb.DuckDBPyConnection, database: str) -> set[str]:
    return {table for name, table in stored_tables(con) if name == database}


def discard(draft: Path) -> None:
    for path in (draft, Path(f"{draft}.wal")):
        path.unlink(missing_ok=True)


def fill(con: duckdb.DuckDBPyConnection, former: Path, kind: Beside) -> None:
    """Create every table, the rows of the former file in those that it has, and this release's views and questions, in the database of the kind."""
    con.execute(filling(kind))
    if former.exists():
        attach_file(con, former, kind, "former")
        for table in sorted(tables(con, kind.name) & tables(con, "former") - {kind.label}):
            con.execute(f"INSERT INTO {kind.name}.{table} BY NAME FROM former.{table}")
        con.execute("DETACH former")


def write_file(target: Path, former: Path, kind: Beside) -> None:
    """Write a new file with the rows of a former one, if that exists."""
    with closing(open_writer(":memory:")) as con:
        attach_draft(con, target, kind)
        fill(con, former, kind)
        con.execute(f"CHECKPOINT {kind.name}")
        con.execute(f"DETACH {kind.name}")

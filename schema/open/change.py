"""Creation of files beside an atlas, and changes to them.

A change writes a whole new file and puts it in the place of the old one. So an open atlas keeps the file it attached, and a change that fails leaves the
old file as it was.
Any DuckDB can query such a file: ATTACH 'NAME.annotations.duckdb' AS annotations.
"""

import secrets
import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING

import duckdb

from schema.durable import put_in_place
from schema.errors import AtlasError
from schema.open.companion import attach_blank, attach_draft, attach_file, columns, fill_companion
from schema.open.drafts import copy_to_draft, owner, remove_left
from schema.open.kinds import Companion
from schema.open.locks import hold_lock_file
from schema.open.logs import check_log
from schema.open.open_with_beside import open_with_beside
from schema.open.others import tables_with
from schema.open.store import open_writer
from schema.table_digests import digest_tables, store_digests

if TYPE_CHECKING:
    import pyarrow as pa

FORMER = """
SELECT c.schema_name, c.table_name, c.column_name, t.sql LIKE '%GENERATED ALWAYS%'
FROM duckdb_columns() AS c INNER JOIN duckdb_tables() AS t USING (database_name, schema_name, table_name)
WHERE c.database_name = 'former'
UNION ALL
SELECT q.schema_name, 'sequence', q.sequence_name, true FROM duckdb_sequences() AS q WHERE q.database_name = 'former'
"""
"""Query for every column of every table of the database `former`, and whether the table has a computed column; and for every sequence, since no file of this
release has one."""

LARGEST_ID = 2**31 - 1
"""The largest number that a column of ids, an INTEGER, holds."""

ONE_AT_A_TIME = Lock()
"""Lock for changes by threads of one process, in which DuckDB opens a file only once: the second thread waits for the first."""


@contextmanager
def change_companion(kind: Companion, path: Path | str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the file of a kind beside the atlas at `path` for changes, as the database of the kind's name; the changes are saved unless the block fails.

    Waits while another thread or process changes the file. Raises Locked if another process is still changing it after schema.open.locks.PATIENCE seconds, and
    AtlasError if the file has a log, has tables or columns that this release does not know, or cannot be written or replaced.
    """
    target = kind.file(path)
    check_log(target)
    refusal = f"{target.name} is in use: another process is changing the {kind.name}. Wait for it."
    with ONE_AT_A_TIME, hold_lock_file(target.with_name(f"{target.name}.lock"), refusal):
        # of changes that died
        remove_left(target)
        # where nobody else may rename anything: DuckDB opens by name
        with TemporaryDirectory(prefix="atlas-") as folder:
            whole = Path(folder) / target.name
            try:
                with closing(open_writer(":memory:")) as con:
                    attach_draft(con, whole, kind)
                    refuse_unknown(con, target, kind)
                    fill_companion(con, target, kind)
                    yield con
                    store_digests(con, kind.name, digest_tables(con, kind.name))
                    con.execute(f"CHECKPOINT {kind.name}")
                    con.execute(f"DETACH {kind.name}")
            except duckdb.OperationalError as error:
                raise unwritten_error(target, error) from error
            try:
                with copy_to_draft(whole, target, target if target.exists() else Path(path)) as draft:
                    replace_file(draft, target)
            except OSError as error:
                raise unwritten_error(target, error) from error


def insert_rows(con: duckdb.DuckDBPyConnection, table: str, rows: "pa.Table", **ids: int) -> None:
    """Insert rows into a table by the names of their columns. ids: further columns, each with one value for all rows.

    Raises duckdb.Error for rows that do not fit the table.
    """
    con.register("new_rows", rows)
    try:
        con.execute(f"INSERT INTO {table} BY NAME SELECT {''.join(f'{value:d} AS {name}, ' for name, value in ids.items())}r.* FROM new_rows AS r")
    finally:
        con.unregister("new_rows")


def next_id(con: duckdb.DuckDBPyConnection, database: str, column: str) -> int:
    """Choose the id of a new row: above the ids in every table with this column, so that no row that a stranger planted belongs to the new row.

    If the largest id that the column can hold is taken, choose the largest free id that follows a taken one.
    """
    taken = " UNION ".join(f"SELECT t.{column}::BIGINT AS id FROM {database}.{table} AS t" for table in tables_with(con, database, [column]))
    sql = (
        f"WITH taken AS MATERIALIZED (SELECT -1 AS id UNION {taken}) "
        f"SELECT max(t.id) + 1 FROM taken AS t ANTI JOIN taken AS n ON t.id + 1 = n.id WHERE t.id BETWEEN -1 AND {LARGEST_ID - 1}"
    )
    return int(con.execute(sql).fetchall()[0][0])


def unwritten_error(target: Path, error: Exception) -> AtlasError:
    return AtlasError(f"{target} cannot be written, and is unchanged: {str(error).splitlines()[0]}")


@contextmanager
def change_companion_with_atlas(kind: Companion, path: Path | str) -> Iterator[tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyConnection]]:
    """Open a file for changes as `change_companion` does, and open the atlas too. Yield both connections.

    The connection of the atlas shows, of the file as it was, only the rows of the atlas's own model and text.
    """
    with change_companion(kind, path) as writer, closing(open_with_beside(path)) as own:
        yield writer, own


def replace_file(draft: Path, target: Path) -> None:
    """Rename a complete new file to `target`. If only another user may do that, as in a sticky folder, leave the new file under another name, and raise
    AtlasError with that name.
    """
    try:
        put_in_place(draft, target)
    except PermissionError as error:
        kept = target.with_name(f"{target.name}.changed-{secrets.token_hex(4)}")
        put_in_place(draft, kept)
        raise AtlasError(
            f"{target} is unchanged: only {owner(target)} may replace it here ({error.strerror}). The changed file is stored as {kept}: "
            f"ask that user to run `mv {shlex.quote(str(kept))} {shlex.quote(str(target))}`"
        ) from error


def refuse_unknown(con: duckdb.DuckDBPyConnection, former: Path, kind: Companion) -> None:
    """Raise AtlasError for a file with tables or columns, in any schema, that this release does not know: a change would drop them."""
    if not former.exists():
        return
    attach_file(con, former, kind, "former")
    known = {("main", *names) for names in known_columns(kind)}
    unknown = [found for *found, is_computed in con.execute(FORMER).fetchall() if tuple(found) not in known or is_computed]
    con.execute("DETACH former")
    if unknown:
        named = ", ".join(sorted(".".join(found).removeprefix("main.") for found in unknown)[:5])
        raise AtlasError(
            f"{former} has tables or columns that this release does not know, and a change would drop them: {named}. Install the release that made it."
        )


@cache
def known_columns(kind: Companion) -> frozenset[tuple[str, str]]:
    with closing(open_writer(":memory:")) as con:
        attach_blank(con, kind)
        return frozenset(columns(con, kind.name))

"""Files beside an atlas, NAME.<kind>.duckdb: each is attached read-only, as a database of the kind's name, by
schema/open/open_with_beside.py when the atlas is opened.

If there is no such file, an empty one from the user's cache is attached instead, with the kind's tables, views and questions: attaching it takes a millisecond,
whereas creating its contents takes as long as opening the atlas. If the cache fails, only time is lost.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import duckdb

from schema.errors import AtlasError
from schema.open.companion import attach, attach_file, require_duckdb, unreadable, write_file
from schema.open.definitions import cache_folder, check_once, digest, hash_file, released_definitions
from schema.open.drafts import is_readable
from schema.open.kinds import Companion, creation_sql, derived_sha256, kinds, read_folder, sources_sha256
from schema.open.lake import is_lake
from schema.open.names import escape_quotes, private_hardlink
from schema.open.store import LOCKED, STORAGE_VERSION, open_writer
from schema.table_digests import STORED

if TYPE_CHECKING:
    import pyarrow as pa


SMALLEST = 16384
"""Bytes of a block of a cached empty file: the fewest that DuckDB allows, since the file holds at most one row."""

DRAFT = ".blank-"
"""Prefix of the names of folders in the cache: those of drafts of the empty files, and those of second names under which these files are opened."""

LEFT_S = 3600
"""Seconds after which such a folder counts as left by a process that was killed."""

TABLES = f"""
SELECT t.sql FROM system.main.duckdb_tables() AS t
WHERE t.database_name = '{{}}' AND t.table_name <> '{STORED}' ORDER BY t.schema_name, t.table_name
"""
"""Query for the SQL of all tables of a database except the table of digests, which no SQL reads and which a file need not have."""


def attach_beside(con: duckdb.DuckDBPyConnection, path: Path, others: "Mapping[str, pa.Table]" = MappingProxyType({})) -> Callable[[], None]:
    """Attach the files beside the atlas at `path` read-only, without the rows `others` (kind → rows); for a file that does not exist, attach empty tables.

    If the user's cache cannot provide the empty tables, an empty database in memory is attached. The returned function, to be called after the connection is
    locked down, creates the tables in it.

    The atlas may be a stranger's and is not locked down yet, so its connection only runs ATTACH, DETACH, and checks of the attached databases.
    Connections of one process to one atlas share the attached databases. Raises AtlasError if a file cannot be read or is of another version.
    """
    blank = [kind for kind in kinds() if attach_kind(con, path, kind, others.get(kind.name))]

    def fill() -> None:
        for kind in blank:
            con.execute(creation_sql(kind))

    return fill


def attach_kind(con: duckdb.DuckDBPyConnection, path: Path, kind: Companion, others: "pa.Table | None") -> bool:
    """Attach the file of a kind beside an atlas, or empty tables if this user has no such file to read.

    Return whether the tables are still to be created in the attached database.
    """
    # for DuckDB names that differ in case are one, and what is in the atlas would be read as what lies beside it
    if not is_lake(path) and path.name.partition(".")[0].lower() == kind.name:
        raise AtlasError(f"an atlas cannot be called {kind.name}: in SQL, that is the name of the database of its {kind.name}. Rename {path}")
    target = kind.file(path)
    if not target.exists() or not is_readable(target):
        return not attach_kept(con, kind) and attach(con, ":memory:", kind.name, "READ_WRITE")
    with as_of_this_release(target, kind, others) as file:
        attach(con, escape_quotes(file), kind.name, "READ_ONLY")
    return False


def attach_kept(con: duckdb.DuckDBPyConnection, kind: Companion) -> bool:
    """Attach a kind's empty file from the user's cache. Return whether it is now attached, by this connection or by another to the same atlas."""
    # what DuckDB raises depends on what is wrong with a disk, a name or a file, on what is shut already, and on its version
    with suppress(AtlasError, OSError, ValueError, RuntimeError, duckdb.Error):
        kept = cached_empty_companion(kind.name, creation_sql(kind))
        with private_hardlink(kept) as own:
            hashed = hash_file(own)
            try:
                is_first = attach(con, escape_quotes(own), kind.name, "READ_ONLY")
            except (duckdb.IOException, duckdb.SerializationException) as error:
                # made again by the next opening; on a file system without locks every one would make it
                if LOCKED not in str(error):
                    kept.unlink()
                raise
            is_whole = not is_first or check_once(f"blank {kind.name}", own, hashed, lambda: is_blank(con, kind))
        if not is_whole:
            con.execute(f"DETACH {kind.name}")
            kept.unlink()
            return False
        return True
    return False


def is_blank(con: duckdb.DuckDBPyConnection, kind: Companion) -> bool:
    """Tell whether the attached database holds nothing but one row, which has the version and digest of this release's kind."""
    try:
        labelled = con.execute(f"SELECT l.version, l.derived_sha256 FROM {kind.name}.{kind.label} AS l").fetchall()
        (n_rows,) = con.execute(f"SELECT sum(t.estimated_size) FROM system.main.duckdb_tables() AS t WHERE t.database_name = '{kind.name}'").fetchall()[0]
    except duckdb.Error:
        return False
    return (labelled, n_rows) == ([(kind.version, derived_sha256(kind))], 1)


@contextmanager
def as_of_this_release(target: Path, kind: Companion, others: "pa.Table | None" = None) -> Iterator[Path]:
    """Yield a path at which the rows of the file are found with this release's views and questions: a second name of the file, or a new file with a copy.

    A copy is made if the file does not have this release's views and questions, or if `others` is given: the copy leaves these rows out.
    The file is examined on a connection without any atlas.
    """
    require_duckdb(target, kind)
    with private_hardlink(target) as own:
        hashed = hash_file(own)
        with closing(open_writer(":memory:")) as con:
            attach_file(con, target, kind, own=own)
            try:
                is_current = con.execute(f"SELECT derived_sha256 FROM {kind.name}.{kind.label} LIMIT 2").fetchall() == [(derived_sha256(kind),)]
                sources = sources_sha256(kind)
                is_current = is_current and check_once(
                    sources, own, hashed, lambda: describe_definitions(con, kind) == released_definitions(sources, lambda: describe_release_definitions(kind))
                )
            except duckdb.Error as error:
                raise unreadable(target, kind, error) from error
        if is_current and others is None:
            yield own
            return
    with tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        copy = Path(folder) / target.name
        write_file(copy, target, kind, others)
        yield copy


def describe_definitions(con: duckdb.DuckDBPyConnection, kind: Companion) -> str:
    """Describe the definitions in the attached file: the SQL of its tables as DuckDB writes it, and a digest of its views and questions."""
    # not as a parameter: to bind one DuckDB imports pandas, which takes as long as opening, and loses a Ctrl-C meanwhile
    tables = con.execute(TABLES.format(kind.name)).fetchall()
    return digest(con, kind.name, read_folder(kind.folder / "views").keys() | kind.questions().keys()) + " ".join(sql for (sql,) in tables)


def describe_release_definitions(kind: Companion) -> str:
    with closing(open_writer(":memory:")) as con, tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        file = escape_quotes(Path(folder) / f"{kind.name}.duckdb")
        # written and read, as in `digest_of_release`
        con.execute(f"ATTACH '{file}' AS {kind.name} (STORAGE_VERSION '{STORAGE_VERSION}')")
        con.execute(creation_sql(kind))
        con.execute(f"DETACH {kind.name}")
        con.execute(f"ATTACH '{file}' AS {kind.name} (READ_ONLY)")
        return describe_definitions(con, kind)


def cached_empty_companion(name: str, filling: str) -> Path:
    """Return the path of the cached file with a database called `name` and the objects that the SQL `filling` creates; make the file if it does not exist.

    Raises OSError, ValueError, RuntimeError or duckdb.Error if nothing can be cached: on a full disk, in another user's folder, under a name that DuckDB
    does not take.
    """
    file = cache_folder() / f"blank-{name}-{duckdb.__version__}-{sha256(filling.encode()).hexdigest()}.duckdb"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        remove_old(file.parent)
        with tempfile.TemporaryDirectory(prefix=DRAFT, dir=file.parent) as folder:
            build_empty_companion(Path(folder) / file.name, name, filling).replace(file)
    return file


def build_empty_companion(draft: Path, name: str, filling: str) -> Path:
    with closing(open_writer(":memory:")) as con:
        con.execute(f"ATTACH '{escape_quotes(draft)}' AS {name} (BLOCK_SIZE {SMALLEST})")
        con.execute(filling)
        con.execute(f"DETACH {name}")
    return draft


def remove_old(folder: Path) -> None:
    for left in folder.glob(f"{DRAFT}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > LEFT_S:
                shutil.rmtree(left)

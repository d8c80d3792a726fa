"""The only module that opens atlas files (lakes: schema/open/lake.py): read-only for questions, read-write for the loader. Reading never makes a new file."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import duckdb

from schema import SCHEMA_VERSION
from schema.damage import describe_damage
from schema.errors import AtlasError, Locked, NotAnAtlas
from schema.open.definitions import check_once, hash_file, matches_release
from schema.open.kinds import kind_of, kinds
from schema.open.lake import is_lake, open_published
from schema.open.names import escape_quotes, private_hardlink
from schema.release import is_of_this_release, release_digest, stored_tables

STORAGE_VERSION = "v1.2.0"
"""Storage format of every file: the oldest whose files are no larger than those of the newest. DuckDB 1.2.0 and every later version can open it."""

ROW_GROUP_NUMBERS, FEWEST_ROWS, MOST_ROWS = 2**24, 2048, 122_880
"""Numbers that the vectors of a row group have together (with twice as many, DuckDB leaves half of each block empty); fewest and most rows of a row group,
which are DuckDB's minimum and default."""


WRITER_MEMORY = "2GB"
"""Memory limit of the loader, which shares the machine with a model; data that does not fit goes to the folder beside its file."""

HEADER_BYTES = 3 * 4096
"""Bytes of a DuckDB file before its blocks."""


LOCKED = "Could not set lock"
"""Part of DuckDB's message for a file that another process has open for writing, and for no other fault."""


SENT = "sent"
"""Name under which a file from an untrusted source is attached."""

Attach = Callable[[duckdb.DuckDBPyConnection, Path], Callable[[], None]]
"""Function that attaches the files beside an atlas, and returns a function to call once the connection is locked down."""

OFFLINE = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}


def open_reader(
    path: Path | str,
    *,
    memory: str = "4GB",
    attach: Attach | None = None,
    config: Mapping[str, object] = MappingProxyType({}),
) -> duckdb.DuckDBPyConnection:
    """Open an atlas read-only, locked down: no writes, no other files, no extensions, no settings.

    Nothing in the file is read before that lockdown: a macro of the file may have the name of a DuckDB function, and a table may have a computed column.
    `config`: further settings of DuckDB. Raises NotAnAtlas if the path is no atlas of this schema version, Locked if another process is writing to it.
    """
    path = Path(path)
    con = _open(path, {**config, **OFFLINE, "memory_limit": memory}, attach or attach_nothing)
    try:
        check_version(con, path)
    except BaseException:
        con.close()
        raise
    return con


def attach_nothing(_con: duckdb.DuckDBPyConnection, _path: Path) -> Callable[[], None]:
    return lambda: None


def _open(path: Path, config: dict, attach: Attach) -> duckdb.DuckDBPyConnection:
    if is_lake(path):
        con = open_published(path, config)
        _attach_and_lock_down(con, path, attach)()
        return con
    if not path.exists():
        raise NotAnAtlas(f"no atlas at {path}: no such file{_neighbours(path)}")
    if path.is_dir():
        raise NotAnAtlas(f"no atlas at {path}: it is a folder")
    refuse_device(path)
    with private_hardlink(path) as name:
        # by the name that everybody uses, DuckDB would hand out what another connection of this process has open, with its settings and what it has attached
        if name != path:
            hashed = hash_file(name)
            con = _connect(name, read_only=True, config=config, shown=path)
            fill = _attach_and_lock_down(con, path, attach)
            if is_of_this_release(con) and check_once(release_digest(), name, hashed, lambda: matches_release(con, open_writer)):
                fill()
                return con
            con.close()
        return _open_apart(path, name, config, attach)


def _open_apart(path: Path, name: Path, config: dict, attach: Attach) -> duckdb.DuckDBPyConnection:
    """Open a file by attaching it to a database in memory, with this release's views and questions over its tables."""
    # imported here: SQLAlchemy takes longer to load than a file to open
    from schema.open.older import OLDER, attach_older, install_stand_ins

    refuse_foreign(name, path)
    con = duckdb.connect(":memory:", config=config)
    try:
        with translate_open_errors(name, path):
            attach_older(con, name)
        _attach_and_lock_down(con, path, attach)()
        with translate_open_errors(name, path):
            check_version(con, path, OLDER)
            install_stand_ins(con, OLDER)
    except BaseException:
        con.close()
        raise
    return con


def _attach_and_lock_down(con: duckdb.DuckDBPyConnection, path: Path, attach: Attach) -> Callable[[], None]:
    """Attach the files beside the atlas, lock the connection down, and return the function that `attach` returned. On failure, close the connection."""
    try:
        fill = attach(con, path)
        lock_down(con)
    except BaseException:
        con.close()
        raise
    return fill


def lock_down(con: duckdb.DuckDBPyConnection) -> None:
    """Forbid, for good, access to all other files and changes of settings.

    Connections of one process to one file share its settings, so another connection may have locked it down already.
    """
    try:
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
    except duckdb.InvalidInputException:
        settings = con.execute("SELECT current_setting('enable_external_access'), current_setting('lock_configuration')").fetchall()
        if settings != [(False, True)]:
            raise


def open_writer(path: Path | str) -> duckdb.DuckDBPyConnection:
    """Open or create a working file read-write. Raises Locked, with the PID, if another process has it open."""
    return _connect(Path(path), read_only=False, config={**OFFLINE, "memory_limit": WRITER_MEMORY, "storage_compatibility_version": STORAGE_VERSION})


def atlas_options(d_model: int) -> str:
    """Write the options of ATTACH for a new file with vectors of `d_model` numbers."""
    rows = ROW_GROUP_NUMBERS // d_model // FEWEST_ROWS * FEWEST_ROWS
    return f"STORAGE_VERSION '{STORAGE_VERSION}', ROW_GROUP_SIZE {min(max(rows, FEWEST_ROWS), MOST_ROWS)}"


def open_memory(n_threads: int) -> duckdb.DuckDBPyConnection:
    """Open an empty database in memory, to compute in."""
    return duckdb.connect(":memory:", config={**OFFLINE, "threads": n_threads})


@contextmanager
def open_untrusted(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Attach any file, unchanged, to a locked-down database in memory as SENT: nothing that the file defines is found by its name alone.

    Raises the errors of `open_reader`.
    """
    refuse_device(path)
    refuse_foreign(path, path)
    con = duckdb.connect(":memory:", config={**OFFLINE})
    try:
        with private_hardlink(path) as own:
            with translate_open_errors(own, path):
                con.execute(f"ATTACH '{escape_quotes(own)}' AS {SENT} (READ_ONLY)")
            lock_down(con)
            yield con
    finally:
        con.close()


def open_unchanged(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a database of any version read-only, as it is on the disk; a log beside it is applied in memory only. Raises the errors of `open_reader`."""
    return _connect(path, read_only=True, config=OFFLINE)


def _connect(path: Path, *, read_only: bool, config: dict, shown: Path | None = None) -> duckdb.DuckDBPyConnection:
    """Connect to a file. shown: the name to use in errors, if people know the file by a name other than `path`."""
    shown = shown or path
    refuse_foreign(path, shown)
    with translate_open_errors(path, shown):
        return duckdb.connect(str(path), read_only=read_only, config=config)


@contextmanager
def translate_open_errors(path: Path, shown: Path) -> Iterator[None]:
    """Translate DuckDB's errors about a file into those of schema.errors. shown: the name by which people know the file."""
    try:
        yield
    except duckdb.IOException as error:
        if LOCKED in str(error):
            raise Locked(f"{shown} is in use by another process: {lock_holder(error)}. Wait for it, or close it there.") from error
        if path.is_file() and not is_duckdb(path):
            raise NotAnAtlas(f"{shown} is not an atlas: it is no DuckDB file") from error
        raise AtlasError(f"{_describe_refusal(error, shown)}: {_error_line(error, path, shown)}") from error
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise AtlasError(f"{_describe_refusal(error, shown)}: {_error_line(error, path, shown)}") from error


def _describe_refusal(error: Exception, shown: Path) -> str:
    return f"cannot open {shown}" if describe_damage(error) is None else f"{shown} is damaged"


def _error_line(error: Exception, path: Path, shown: Path) -> str:
    """Return the first line of DuckDB's message, with `path` replaced by the name that people know."""
    return str(error).splitlines()[0].replace(str(path), str(shown))


def refuse_device(path: Path) -> None:
    """Raise NotAnAtlas for a pipe or a device: opening one may wait without end."""
    if path.exists() and not path.is_file():
        raise NotAnAtlas(f"no atlas at {path}: it is no file")


def refuse_foreign(path: Path, shown: Path) -> None:
    """Raise NotAnAtlas for a name that DuckDB cannot open, and for a SQLite database, which DuckDB would open as one. shown: the name for errors."""
    refuse_name(shown)
    if is_sqlite(path):
        raise NotAnAtlas(f"{shown} is not an atlas: it is a SQLite database")


def refuse_name(path: Path) -> None:
    """Raise NotAnAtlas for a name that is not UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise NotAnAtlas(f"cannot open {path}: its name is not UTF-8, and DuckDB cannot open such a file; rename it, or open a link to it") from error


def is_duckdb(path: Path) -> bool:
    """Tell whether a file begins like a DuckDB file, complete or not."""
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


def is_sqlite(path: Path) -> bool:
    """Tell whether a file is a SQLite database, for which DuckDB would look for an extension."""
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def require_whole(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Raise AtlasError if the open file lacks a block that is in use: otherwise the loss would be noticed only when the block is read.

    DuckDB writes the number of blocks into the header before it cuts free blocks off the end, so a complete file may have fewer blocks than its header says.
    """
    # an older atlas is not the current database, which is in memory and has no blocks
    sizes = "SELECT s.database_name, s.total_blocks, s.block_size FROM pragma_database_size() AS s WHERE s.block_size > 0"
    ((name, n_blocks, block_bytes),) = con.execute(sizes).fetchall()
    n_held, rest = divmod(path.stat().st_size - HEADER_BYTES, block_bytes)
    if n_held < n_blocks and (rest or last_block(con, name) >= n_held):
        raise AtlasError(f"{path} is damaged: it was cut short")


def last_block(con: duckdb.DuckDBPyConnection, database: str) -> int:
    """Find the number, counted from 0, of the last block that holds metadata or table rows of a database."""
    tables = con.execute("SELECT t.table_name FROM duckdb_tables() AS t WHERE t.database_name = ?", [database]).fetchall()
    used = "SELECT greatest(max(s.block_id), max(list_max(s.additional_block_ids))) FROM pragma_storage_info(?) AS s"
    found = [con.execute("SELECT max(m.block_id) FROM pragma_metadata_info(?) AS m", [database]).fetchall()]
    found += [con.execute(used, [f'"{database}".main."{name}"']).fetchall() for (name,) in tables]
    return max(block for [(block,)] in found if block is not None)


def lock_holder(error: duckdb.Error) -> str:
    """Extract 'python3 (PID 123)' from DuckDB's message about a file that another process holds."""
    message = str(error)
    start, end = message.find("held in "), message.find(")")
    return message[start + len("held in ") : end + 1] if 0 <= start < end else message.splitlines()[0]


def check_version(con: duckdb.DuckDBPyConnection, path: Path | str, database: str = "") -> None:
    """Raise NotAnAtlas unless the open file holds an atlas of this schema version. database: the name under which it is attached; '' for the current one."""
    beside = {kind.name for kind in kinds()}
    tables = {table for database, table in stored_tables(con) if database not in beside}
    if not {"model", "run", "shard"} <= tables:
        found = ", ".join(sorted(tables)[:5]) or "no tables"
        raise NotAnAtlas(f"{path} is not an atlas: it is a DuckDB file with {found}, and without the tables model, run and shard")
    try:
        versions = con.execute(f"SELECT m.schema_version FROM {database and f'{database}.'}main.model AS m LIMIT 1").fetchall()
    except duckdb.BinderException as error:
        raise NotAnAtlas(f"{path} is not an atlas: its table model has no schema_version") from error
    if versions and versions[0][0] != SCHEMA_VERSION:
        raise NotAnAtlas(
            f"{path} has schema version {versions[0][0]}; this is activation-atlas for version {SCHEMA_VERSION}. "
            "Install the version that made it, or ingest again into a new file."
        )


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f" (and no folder {path.parent})"
    names = sorted(p.name for p in path.parent.glob("*.duckdb") if kind_of(p) is None)[:5]
    return f"; atlases beside it: {', '.join(names)}" if names else "; `atlas ingest` makes one"

"""Verification of an atlas: the atlas, its keys and the files beside it are read from end to end, and compared with the digests that were stored with them.

Reading runs in a separate process, because some damaged files crash DuckDB.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from schema import SCHEMA_VERSION
from schema.damage import describe_damage
from schema.errors import AtlasError, Locked
from schema.interruptible import interruptible
from schema.key_files import find_key_faults, keys_folder
from schema.open.kinds import kinds
from schema.open.lake import open_published
from schema.open.store import OFFLINE, SENT, open_untrusted
from schema.own_process import command_of
from schema.release import stored_tables
from schema.table_digests import STORED, Written, digest_ddl, digest_table, stored_digests
from schema.table_facts import facts

if TYPE_CHECKING:
    from schema.digests import Digest

ELSEWHERE = (duckdb.InterruptException, duckdb.OutOfMemoryException, duckdb.ConnectionException)
"""Errors that DuckDB may raise while it reads an undamaged table."""

MOST_FAULTS, LONGEST_FAULT = 50, 500
"""Limits on the faults that are reported for a file, and on the characters of each."""

CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}
"""Signals that end a process through its own fault; any other signal comes from outside, for instance if memory runs out."""


@dataclass
class Reading:
    """Result of reading a file.

    told: how much was read, keys included, for messages. is_compared: whether digests were stored to compare with. faults, key_faults: what is wrong with the
    file and with its keys, one line each. locked: why the file cannot be read at the moment, '' if it can.
    """

    path: str
    told: str = ""
    is_compared: bool = False
    faults: list[str] = field(default_factory=list)
    key_faults: list[str] = field(default_factory=list)
    locked: str = ""


def read_back(atlas: Path) -> Iterator[Reading]:
    """Read an atlas file with its keys, then each file beside it. Raises Locked if another process writes to one of them, AtlasError if they cannot be read."""
    return read_in_subprocess([atlas, *(path for kind in kinds() if (path := kind.path(atlas)).exists())])


def read_in_subprocess(paths: Sequence[Path]) -> Iterator[Reading]:
    """Read files in a subprocess. If one of them crashes it, a new subprocess reads the remaining files."""
    left = [*paths]
    while left:
        command, environment = command_of(__name__)
        done = subprocess.run([*command, *map(str, left)], capture_output=True, text=True, env=environment, check=False)
        for line in done.stdout.splitlines():
            found = Reading(**json.loads(line))
            if found.locked:
                raise Locked(found.locked)
            left.pop(0)
            yield found
        if not left:
            return
        if done.returncode >= 0:
            raise AtlasError(f"cannot read {left[0]}: {(done.stderr.splitlines() or ['the process that read it ended without a message'])[-1]}")
        name = signal.Signals(-done.returncode).name
        if -done.returncode not in CRASHES:
            raise AtlasError(f"the signal {name} ended the process that read {left[0]}, so the file was not checked; run the command again")
        yield Reading(str(left.pop(0)), faults=[f"reading it crashes DuckDB ({name})"])


def read_file(path: Path) -> Reading:
    """Read every table of a database file, and the key files that it names."""
    found = Reading(str(path))
    try:
        with open_untrusted(path) as con:
            read_tables(con, found)
            if not found.faults and (SENT, "key_file") in stored_tables(con):
                read_keys(con, path, found)
    except Locked as error:
        found.locked = str(error)
    except AtlasError as error:
        found.faults.append(str(error).splitlines()[0])
    except Exception as error:
        found.faults.append(require_damage(error))
    found.faults, found.key_faults = shorten(found.faults), shorten(found.key_faults)
    return found


def shorten(faults: list[str]) -> list[str]:
    """Limit a list of faults to MOST_FAULTS, with a count of the rest, and each fault to LONGEST_FAULT characters."""
    more = [f"and {len(faults) - MOST_FAULTS:,} more faults"] if len(faults) > MOST_FAULTS else []
    return [f"{fault[:LONGEST_FAULT]} …" if len(fault) > LONGEST_FAULT else fault for fault in faults[:MOST_FAULTS]] + more


def read_tables(con: duckdb.DuckDBPyConnection, found: Reading) -> None:
    """Read every table of the database SENT. Stop at a table that DuckDB cannot read, and report it: DuckDB may be unable to read anything afterwards."""
    tables, n_rows = sorted(table for database, table in stored_tables(con) if database == SENT), 0
    written = stored_digests(con, SENT) if STORED in tables and not is_of_another_version(con, tables) else {}
    ddl = digest_ddl(con, SENT)
    found.is_compared = bool(written)
    found.faults.extend(f"the table {name} is missing" for name in sorted(written.keys() - {*tables}))
    for name in tables:
        try:
            rows = read_table(con, place_of(SENT, name))
        except Exception as error:
            found.faults.append(f"the table {name} cannot be read: {require_damage(error)}")
            return
        n_rows += rows.n_rows
        if written and name != STORED:
            found.faults.extend(compare(name, written.get(name), Written(rows.n_rows, str(rows), ddl[name])))
    found.told = f"{n_rows:,} rows of {len(tables)} tables"


def is_of_another_version(con: duckdb.DuckDBPyConnection, tables: Collection[str]) -> bool:
    """Tell whether the database SENT is an atlas, or a file beside one, of another version, which may compute the digest of rows differently."""
    current = {"model": ("schema_version", SCHEMA_VERSION), **{kind.label: ("version", kind.version) for kind in kinds()}}
    return any(
        version != expected
        for table, (column, expected) in current.items()
        if table in tables
        for (version,) in con.execute(f"SELECT DISTINCT t.{column} FROM {SENT}.main.{table} AS t LIMIT 2").fetchall()
    )


def read_table(con: duckdb.DuckDBPyConnection, place: str) -> "Digest":
    """Read a table and return its digest. Ctrl-C ends the reading."""
    with closing(con.cursor()) as cursor:
        return interruptible(cursor, lambda: digest_table(cursor, place))


def place_of(database: str, table: str) -> str:
    """Write the full name of a table in SQL, quoted, since a stranger may have chosen it."""
    whole = table.replace('"', '""')
    return f'{database}.main."{whole}"'


def compare(name: str, written: Written | None, found: Written) -> Iterator[str]:
    """Report how a table differs from what was written."""
    if written is None:
        yield f"the table {name} was not written with the others, or its digest is missing"
    elif written.n_rows != found.n_rows:
        yield f"the table {name} has {found.n_rows:,} rows, but {written.n_rows:,} were written"
    elif written.rows_digest != found.rows_digest:
        yield f"the table {name} has other rows than were written"
    elif written.ddl_digest != found.ddl_digest:
        yield f"the table {name} has other columns than were written"


def read_keys(con: duckdb.DuckDBPyConnection, atlas: Path, found: Reading) -> None:
    """Read the key files that the database SENT names, if their folder is beside the atlas."""
    (n_files,) = con.execute(f"SELECT count(*) FROM {SENT}.main.key_file").fetchall()[0]
    if n_files and keys_folder(atlas).exists():
        found.key_faults.extend(find_key_faults(con, atlas, f"{SENT}.main"))
        found.told += f" and {n_files} files of keys"


def read_lake(path: Path) -> Reading:
    """Read the last published state of a lake, which stores no digests. Raises the errors of `open_published`."""
    found, n_rows = Reading(str(path)), 0
    with closing(open_published(path, {**OFFLINE})) as con:
        for name in facts().filled_by:
            try:
                n_rows += read_table(con, name).n_rows
            except duckdb.Error as error:
                found.faults.append(f"the table {name} cannot be read: {' '.join(str(error).split())}")
    found.told = f"{n_rows:,} rows of {len(facts().filled_by)} tables"
    return found


def require_damage(error: Exception) -> str:
    """Describe, in one line, the damage that an error reports. Raises the error itself if it does not come from damage."""
    if (said := describe_damage(error)) is not None:
        return said
    if isinstance(error, duckdb.Error) and not isinstance(error, ELSEWHERE):
        return str(error).splitlines()[0]
    raise error


if __name__ == "__main__":
    # whoever began this says what of it is said
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for name in sys.argv[1:]:
        os.write(1, f"{json.dumps(asdict(read_file(Path(name))))}\n".encode())

"""Check that the views and questions of a file are exactly this release's.

So a stranger's definition is never run, even if it has the name of a view, a question, a table or a DuckDB function.
Definitions are compared in the form in which DuckDB shows them once they are built. Building this release's takes longer than opening an atlas, so their digest
is stored in the user's cache.
"""

import json
import os
import tempfile
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from functools import partial
from hashlib import blake2b, sha256
from pathlib import Path

import duckdb

from schema.open.logs import has_log
from schema.release import question_files, release_digest, stored_tables, view_files
from schema.table_facts import facts

FUNCTIONS = """
SELECT DISTINCT
    f.database_name, f.function_name,
    CASE WHEN NOT f.internal THEN f.parameters END AS parameters, CASE WHEN NOT f.internal THEN f.macro_definition END AS body
FROM system.main.duckdb_functions() AS f
"""
VIEWS = "SELECT v.database_name, v.view_name, v.sql FROM system.main.duckdb_views() AS v"
TABLES = "SELECT t.database_name, t.table_name FROM system.main.duckdb_tables() AS t"
SCHEMAS = "SELECT s.database_name FROM system.main.duckdb_schemas() AS s WHERE NOT s.internal AND s.schema_name <> 'main'"
"""Queries over all databases. They call DuckDB's functions by full name, since a macro of the file may have the name of such a function."""

KEPT = "definitions-4"
"""Prefix of the name of a cached digest; its number changes whenever `digest` covers something else."""

KNOWN: dict[str, str] = {}
"""Digest of the sources of definitions → description of the built definitions, for those that this process has built or read from the cache."""

CHECKED: set[tuple[str, str]] = set()
"""Release and digest of each file that this process found to have the definitions of that release."""

HASHED_BYTES = 1 << 23
"""Most bytes of a file that is hashed, so that it is recognised when it is opened again: hashing it twice takes a third of the time of a check."""


def hash_file(file: Path) -> str:
    """Hash the content of a file; '' if the file is larger than HASHED_BYTES, or has a log, which may hold further content.

    Only its content identifies a file: its sender chooses its time and size, and a file that replaces it may get the same inode.
    """
    return "" if has_log(file) or file.stat().st_size > HASHED_BYTES else blake2b(file.read_bytes()).hexdigest()


def check_once(release: str, file: Path, hashed: str, check: Callable[[], bool]) -> bool:
    """Check a file, and remember a positive result for every file of the same content: a check lists all functions, which takes half the time of an opening.

    hashed: digest of the file before it was opened; if the content has changed since then, no result is remembered.
    """
    if (release, hashed) in CHECKED and hash_file(file) == hashed:
        return True
    is_released = check()
    if is_released and hashed and hash_file(file) == hashed:
        CHECKED.add((release, hashed))
    return is_released


def matches_release(con: duckdb.DuckDBPyConnection, opened: Callable[[Path], duckdb.DuckDBPyConnection]) -> bool:
    """Tell whether the current database has this release's views and questions, and nothing with the name of a table, DuckDB function or other database.

    opened: function that opens a new file, in which this release's definitions are built if their digest is not cached.
    """
    database = con.execute("SELECT system.main.current_database()").fetchall()[0][0]
    views = {str(name).lower() for place, name, _ in con.execute(VIEWS).fetchall() if place == database}
    computed = {str(table).lower() for place, table in {*con.execute(TABLES).fetchall()} - stored_tables(con) if place == database}
    if (database,) in con.execute(SCHEMAS).fetchall() or (views | computed) & facts().filled_by.keys():
        return False
    return digest(con, database, atlas_names()) == released_definitions(release_digest(), partial(digest_of_release, opened))


def atlas_names() -> Collection[str]:
    return view_files().keys() | question_files().keys()


def digest_of_release(opened: Callable[[Path], duckdb.DuckDBPyConnection]) -> str:
    # imported here: SQLAlchemy takes longer to load than a file to open
    from schema.build import create_tables, install_derived

    # written and read: of a file DuckDB shows `AS MATERIALIZED` and some types otherwise than before it has written them
    with suppress(OSError, duckdb.IOException, duckdb.TransactionException), tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        file = Path(folder) / "release.duckdb"
        with closing(opened(file)) as con:
            create_tables(con, 1)
            install_derived(con)
        with closing(opened(file)) as con:
            return digest(con, "release", atlas_names())
    # where none can be written every file is opened apart, which needs none
    return ""


def digest(con: duckdb.DuckDBPyConnection, database: str, names: Collection[str]) -> str:
    """Compute the SHA-256 of a database's views and table macros with these names. If a macro has a DuckDB function's name, no release has the result."""
    found, system, defined = con.execute(FUNCTIONS).fetchall(), set(), []
    for place, name, parameters, body in found:
        if place == database:
            defined.append((name, parameters or [], body))
        elif place == "system":
            system.add(name.lower())
    shadows = sorted({name for name, *_ in defined if name.lower() in system})
    macros = sorted(macro for macro in defined if macro[0] in names)
    most = {name: max(len(parameters) for other, parameters, _ in macros if other == name) for name, *_ in macros}
    heads = [macro_signature(con, database, name, n) for name, n in sorted(most.items()) if n]
    views = sorted((name, sql) for place, name, sql in con.execute(VIEWS).fetchall() if place == database and name in names)
    return sha256(json.dumps([shadows, macros, heads, views]).encode()).hexdigest()


def macro_signature(con: duckdb.DuckDBPyConnection, database: str, name: str, n: int) -> str:
    """Call a table macro that has `n` parameters with one argument more, and return DuckDB's error: it lists the types and defaults of all parameters.

    No table of DuckDB lists them. Since no macro fits the call, none is run.
    """
    place, macro = (part.replace('"', '""') for part in (database, name))
    try:
        con.execute(f'EXPLAIN FROM "{place}".main."{macro}"({", ".join(["NULL"] * (n + 1))})')
    except duckdb.Error as error:
        return str(error).rsplit("\n\nLINE", 1)[0]
    return ""


def released_definitions(sources: str, build: Callable[[], str]) -> str:
    """Look up built definitions by the digest of their `sources` and DuckDB's version, or else `build` them; '' if there is no place to build them in."""
    if not KNOWN.get(sources):
        KNOWN[sources] = load_or_build_definitions(sources, build)
    return KNOWN[sources]


def load_or_build_definitions(sources: str, build: Callable[[], str]) -> str:
    file = cache_folder() / f"{KEPT}-{duckdb.__version__}-{sources}"
    with suppress(OSError, UnicodeDecodeError):
        # a pipe would be waited for, and of a machine that went down a file may be left without its text
        if file.is_file() and (text := file.read_text(encoding="utf-8")):
            return text
    if not (built := build()):
        return ""
    # where nothing can be kept it is built each time
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        try:
            draft.write_text(built, encoding="utf-8")
            draft.replace(file)
        except OSError:
            draft.unlink()
    return built


def cache_folder() -> Path:
    """Return the folder of the user's cache. If the user has no home, as in a container under an arbitrary user number, nothing can be stored at the path.

    A relative XDG_CACHE_HOME is ignored (XDG Base Directory Specification).
    """
    try:
        given = Path(os.environ.get("XDG_CACHE_HOME", ""))
        return (given if given.is_absolute() else Path("~/.cache").expanduser()) / "activation-atlas"
    except RuntimeError:
        return Path(os.devnull) / "activation-atlas"

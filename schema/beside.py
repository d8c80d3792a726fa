"""A file beside an atlas, NAME.<kind>.duckdb: attached read-only, as a database of the kind's name, when the atlas is opened (schema/opening.py).

Of any number of kinds, which entry points name: what people say of an atlas is one. It is no part of the snapshot, so that ingesting again leaves it
alone; it holds its own views and questions, because a macro of the atlas cannot name another file. schema/beside_change.py changes it.
"""

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import duckdb

from schema.blank import kept_blank
from schema.damage import describe_damage
from schema.definitions import digest, released
from schema.drafts import is_readable
from schema.errors import NO_SPACE, AtlasError, Locked
from schema.installed import points
from schema.lake import is_lake, quoted
from schema.release import commented, stored_tables
from schema.store import LOCKED, OPENING, STORAGE_VERSION, is_sqlite, lock_holder, open_writer, own_name
from schema.table_digests import CREATION, STORED

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = "activation_atlas.beside"
"""Entry points that are a `Beside`."""

TABLES = f"""
SELECT t.sql FROM system.main.duckdb_tables() AS t
WHERE t.database_name = '{{}}' AND t.table_name <> '{STORED}' ORDER BY t.schema_name, t.table_name
"""
"""But the digests of the others: nothing reads them in SQL, and a file without them is read as it is."""


@dataclass(frozen=True)
class Beside:
    """A kind of file beside an atlas.

    `name` is the database's, what messages call what is in it, and part of the file's. `tables` is a file of SQL that creates its tables in that database,
    `label` among them, of one row (version, derived_sha256). `folder` has its views and questions, a file each. `changed_by` and `told_by` are the
    commands that change it and say what is in it; `again` is how to come by it where it is lost. `hanging` is as in
    schema/others.py.
    """

    name: str
    version: int
    label: str
    tables: Path
    folder: Path
    changed_by: str
    told_by: str
    again: str
    hanging: tuple[tuple[str, str, str], ...] = ()

    def path(self, atlas: Path | str) -> Path:
        """Where the file of the atlas at that path is."""
        return Path(atlas).parent / f"{Path(atlas).stem}.{self.name}.duckdb"

    def file(self, atlas: Path | str) -> Path:
        """The same, or the file that a link there leads to. Raises AtlasError for a link to nothing, as where a disk is not mounted."""
        path = self.path(atlas)
        if not path.is_symlink():
            return path
        if not path.exists():
            raise AtlasError(f"{path} leads to {path.readlink()}, and there is nothing: bring back what was there, or remove the link")
        return path.resolve()

    @property
    def others(self) -> str:
        """SQL of the rows that are of another model or text than the atlas; '' for a kind that belongs to no atlas (schema/others.py)."""
        path = self.folder / "others.sql"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def questions(self) -> dict[str, str]:
        """Name → SQL of each, in the order of names."""
        return read_folder(self.folder / "questions")


def read_folder(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql"), key=lambda p: p.stem)}


@cache
def kinds() -> tuple[Beside, ...]:
    """Every installed kind, by name."""
    return tuple(sorted((point.load() for point in points(GROUP)), key=lambda kind: kind.name))


def kind_of(path: Path) -> Beside | None:
    """The kind that a file of this name is of; None of an atlas's."""
    return next((kind for kind in kinds() if f".{path.name}".lower().endswith(f".{kind.name}.duckdb")), None)


def attach_beside(con: duckdb.DuckDBPyConnection, path: Path, others: "Mapping[str, pa.Table]" = MappingProxyType({})) -> Callable[[], None]:
    """Attach what lies beside the atlas at `path` read-only, without `others`; where there is no file, empty tables.

    Where the user's cache keeps none of those either, a database in memory is attached, which what is returned fills.

    The atlas may be a stranger's and is not locked down yet, so this runs ATTACH on its connection and nothing else.
    Connections of one process to one atlas share what is attached. Raises AtlasError if a file cannot be read or is of another version.
    """
    blank = [kind for kind in kinds() if attach_kind(con, path, kind, others.get(kind.name))]

    def fill() -> None:
        for kind in blank:
            con.execute(filling(kind))

    return fill


def attach_kind(con: duckdb.DuckDBPyConnection, path: Path, kind: Beside, others: "pa.Table | None") -> bool:
    """Whether what was attached is still to be filled."""
    # for DuckDB names that differ in case are one, and what is in the atlas would be read as what lies beside it
    if not is_lake(path) and path.name.partition(".")[0].lower() == kind.name:
        raise AtlasError(f"an atlas cannot be called {kind.name}, as its {kind.name} are in SQL: rename {path}")
    target = kind.file(path)
    if not target.exists() or not is_readable(target):
        return not attach_kept(con, kind) and attach(con, ":memory:", kind.name, "READ_WRITE")
    with as_of_this_release(target, kind, others) as file:
        attach(con, quoted(file), kind.name, "READ_ONLY")
    return False


def attach_kept(con: duckdb.DuckDBPyConnection, kind: Beside) -> bool:
    """Whether empty tables of the user's cache are attached, by this connection or another to the same atlas."""
    # what DuckDB raises depends on what is wrong with a disk, a name or a file, on what is shut already, and on its version
    with suppress(AtlasError, OSError, ValueError, RuntimeError, duckdb.Error):
        kept = kept_blank(kind.name, filling(kind))
        with own_name(kept) as own:
            try:
                is_first = attach(con, quoted(own), kind.name, "READ_ONLY")
            except (duckdb.IOException, duckdb.SerializationException) as error:
                # made again by the next opening; on a file system without locks every one would make it
                if LOCKED not in str(error):
                    kept.unlink()
                raise
        if is_first and not is_blank(con, kind):
            con.execute(f"DETACH {kind.name}")
            kept.unlink()
            return False
        return True
    return False


def is_blank(con: duckdb.DuckDBPyConnection, kind: Beside) -> bool:
    """Whether what is attached holds the one row that says what it is, and no other."""
    try:
        labelled = con.execute(f"SELECT l.version, l.derived_sha256 FROM {kind.name}.{kind.label} AS l").fetchall()
        (n_rows,) = con.execute(f"SELECT sum(t.estimated_size) FROM system.main.duckdb_tables() AS t WHERE t.database_name = '{kind.name}'").fetchall()[0]
    except duckdb.Error:
        return False
    return (labelled, n_rows) == ([(kind.version, derived_sha256(kind))], 1)


def attach(con: duckdb.DuckDBPyConnection, file: str, name: str, mode: str) -> bool:
    """Whether it was not attached already."""
    try:
        con.execute(f"ATTACH '{file}' AS {name} ({mode})")
    except (duckdb.BinderException, duckdb.PermissionException):
        # a connection that shares it may be locked down already
        if (name,) not in con.execute("SELECT d.database_name FROM system.main.duckdb_databases() AS d").fetchall():
            raise
        return False
    return True


def attach_blank(con: duckdb.DuckDBPyConnection, kind: Beside) -> None:
    """Attach tables and questions with no rows, in memory."""
    if attach(con, ":memory:", kind.name, "READ_WRITE"):
        con.execute(filling(kind))


@contextmanager
def as_of_this_release(target: Path, kind: Beside, others: "pa.Table | None" = None) -> Iterator[Path]:
    """The file under another name, or, where its views and questions are not this release's, a copy of its rows with those, without `others`.

    It is looked at apart from any atlas.
    """
    with closing(open_writer(":memory:")) as con:
        attach_file(con, target, kind)
        try:
            is_current = con.execute(f"SELECT derived_sha256 FROM {kind.name}.{kind.label} LIMIT 2").fetchall() == [(derived_sha256(kind),)]
            is_current = is_current and defined(con, kind) == released(sources_sha256(kind), lambda: defined_of_release(kind))
        except duckdb.Error as error:
            raise unreadable(target, kind, error) from error
    if is_current and others is None:
        with own_name(target) as own:
            yield own
        return
    from schema.beside_change import write_file

    with tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        copy = Path(folder) / target.name
        write_file(copy, target, kind, others)
        yield copy


def defined(con: duckdb.DuckDBPyConnection, kind: Beside) -> str:
    """What the attached file defines: its tables as DuckDB writes them, with types and constraints, and its views and questions."""
    # not as a parameter: to bind one DuckDB imports pandas, which takes as long as opening, and loses a Ctrl-C meanwhile
    tables = con.execute(TABLES.format(kind.name)).fetchall()
    return digest(con, kind.name, read_folder(kind.folder / "views").keys() | kind.questions().keys()) + " ".join(sql for (sql,) in tables)


def defined_of_release(kind: Beside) -> str:
    with closing(open_writer(":memory:")) as con, tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        file = quoted(Path(folder) / f"{kind.name}.duckdb")
        # written and read, as in `digest_of_release`
        con.execute(f"ATTACH '{file}' AS {kind.name} (STORAGE_VERSION '{STORAGE_VERSION}')")
        con.execute(filling(kind))
        con.execute(f"DETACH {kind.name}")
        con.execute(f"ATTACH '{file}' AS {kind.name} (READ_ONLY)")
        return defined(con, kind)


def attach_file(con: duckdb.DuckDBPyConnection, target: Path, kind: Beside, name: str | None = None) -> None:
    """Attach a file read-only, of this version and no other; `name`: of the database, where it is not the kind's."""
    name = name or kind.name
    if not target.is_file() or is_sqlite(target):
        raise AtlasError(f"cannot read the {kind.name} in {target}: it is no DuckDB file. Move it away to go on without them.")
    try:
        with own_name(target) as own:
            # not IF NOT EXISTS: DuckDB 1.5.5 then waits for ever where it takes this database for an earlier one that had the file open
            con.execute(f"ATTACH '{quoted(own)}' AS {name} (READ_ONLY)")
        is_ours = (name, kind.label) in stored_tables(con)
        versions = con.execute(f"SELECT version FROM {name}.{kind.label} LIMIT 2").fetchall() if is_ours else []
    except duckdb.Error as error:
        raise unreadable(target, kind, error) from error
    if versions != [(kind.version,)]:
        raise AtlasError(
            f"{target} has version {', '.join(str(v) for (v,) in versions) or 'none'}; this is activation-atlas for {kind.name} of version "
            f"{kind.version}. Install the release that made it, or move it away."
        )


def unreadable(target: Path, kind: Beside, error: duckdb.Error) -> AtlasError:
    if LOCKED in str(error):
        return Locked(f"{target}, which holds the {kind.name}, is in use by another process: {lock_holder(error)}. Wait for it, or close it there.")
    if any(text in str(error) for text in NO_SPACE):
        # where its rows are written anew, for this release or for the atlas that is opened
        return AtlasError(
            f"no space left to write the {kind.name} of {target} anew: free some on its disk, or on that of {tempfile.gettempdir()}. It is as it was."
        )
    said = re.sub(rf"[^\s\"]*/\.{re.escape(target.name)}\.{OPENING}[^/]*/", "", describe_damage(error) or str(error).splitlines()[0])
    return AtlasError(f"cannot read the {kind.name} in {target}: {said}. Move the file away to go on without them.")


@cache
def filling(kind: Beside) -> str:
    """SQL that fills the empty database of a kind; one statement, so that a file is written to once."""
    version = f"INSERT INTO {kind.name}.{kind.label} VALUES ({kind.version}, '{derived_sha256(kind)}')"
    return ";\n".join(["BEGIN", kind.tables.read_text(encoding="utf-8"), CREATION.format(kind.name), *derived(kind), version, "COMMIT"])


def derived(kind: Beside) -> list[str]:
    """SQL of the views, in the order of their names, then of the questions."""
    return [*read_folder(kind.folder / "views").values(), *(commented(name, sql, kind.name) for name, sql in kind.questions().items())]


@cache
def sources_sha256(kind: Beside) -> str:
    return hashlib.sha256("\n".join([kind.tables.read_text(encoding="utf-8"), *derived(kind)]).encode()).hexdigest()


@cache
def derived_sha256(kind: Beside) -> str:
    return hashlib.sha256("\n".join(derived(kind)).encode()).hexdigest()

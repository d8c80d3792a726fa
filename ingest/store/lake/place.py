"""The place of a lake's files: to which lake it belongs, and which of its files may be removed.

DATA/atlas-lake/IDENTITY.json     the mark: all files below belong to the lake that has this identity
DATA/main/TABLE/ducklake-….parquet, and DATA/parts/…     written by DuckLake
DATA/shards/RUN-SHARD-…/          written by workers, see ingest/store/lake/staging.py

DuckLake gives every catalogue an identity. Two catalogues have the same identity only if a database was copied, or forged. So the mark names the database
of the catalogue, and a catalogue in another database, such as a restored dump, removes nothing. If a whole server was copied with its disk, the database has
the same name too. So mark and catalogue also share a word, which changes whenever the lake is opened for writing; a process that does not know the word
removes nothing. The file name of a mark is its lake's identity, so that if two lakes begin in one place at once, neither overwrites the other's mark: each
writes its own mark first, and then looks for others.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pyarrow import fs

from schema.durable import put_in_place
from schema.errors import AtlasError, Unreachable
from schema.open.drafts import new_draft, remove_left
from schema.open.lake import Lake, has_catalogue, s3_settings

if TYPE_CHECKING:
    from psycopg import Connection

MARKS = "atlas-lake"
"""Folder of the marks in a place."""

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
MARK = re.compile(rf"(?:.*/)?{MARKS}/{UUID}\.json")
OWN = re.compile(
    rf"(?:main|parts)/[a-z0-9_]+/ducklake-{UUID}(?:-delete)?\.parquet|shards/[0-9]{{3,}}-[0-9]{{5,}}-[0-9a-f]{{12}}/(?:[a-z0-9_]+\.parquet|manifest\.json)"
)
"""Pattern of the file names, relative to the place, that a lake's writers give. Files of a lake within another lake's place do not match."""

LONGEST_MARK = 1 << 16
"""Maximum number of bytes of a mark that are read."""

WORD = re.compile(r"[0-9a-f]{32}")
"""Pattern of a mark's word."""

AT_ONCE = 8
"""Number of files that are removed at once."""


def identity(session: "Connection") -> str | None:
    """Read the identity that distinguishes a lake from all others; None if the catalogue is not made yet."""
    if not has_catalogue(session):
        return None
    ((found,),) = session.execute("SELECT s.schema_uuid FROM ducklake_schema AS s WHERE s.schema_name = 'main' AND s.end_snapshot IS NULL").fetchall()
    return str(found)


def database(session: "Connection") -> str:
    """Name the PostgreSQL server and database of a catalogue. A restored dump, or a database copied from this one, has the same identity but another name."""
    import psycopg

    try:
        ((system,),) = session.execute("SELECT c.system_identifier FROM pg_control_system() AS c").fetchall()
    except psycopg.errors.InsufficientPrivilege:
        system = "a server that does not say which"
    ((oid,),) = session.execute("SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()").fetchall()
    return f"{system}/{oid}"


def word_table(session: "Connection") -> str:
    """Return the name of the table of words, with its schema, because a role's search path may begin with another schema. Create the table if it is missing."""
    ((schema,),) = session.execute("SELECT c.relnamespace::regnamespace::text FROM pg_class AS c WHERE c.oid = 'ducklake_schema'::regclass").fetchall()
    name = f"{schema}.atlas_mark"
    # who may not create anything may write to one that is there
    if session.execute("SELECT to_regclass(%s)", [name]).fetchall() == [(None,)]:
        session.execute(f"CREATE TABLE {name} (word TEXT, former TEXT)")
    return name


def known_words(session: "Connection") -> set[str]:
    """Read the words that a mark of this catalogue may have: the last two, in case a process died after storing the word and before writing the mark."""
    return {word for row in session.execute(f"SELECT m.word, m.former FROM {word_table(session)} AS m").fetchall() for word in row if word is not None}


def keep_word(session: "Connection", word: str, former: str | None) -> None:
    """Store the word of the next mark, and the word of the present mark."""
    table = word_table(session)
    with session.transaction():
        session.execute(f"DELETE FROM {table}")
        session.execute(f"INSERT INTO {table} VALUES (%s, %s)", [word, former])


@dataclass(frozen=True)
class Mark:
    """The content of a mark: the database of the catalogue that wrote it, and the word that mark and catalogue share until the next opening."""

    database: str
    word: str


@dataclass(frozen=True)
class Place:
    """The place of a lake's files. Methods name files relative to the place, and marks by their full paths."""

    data: str

    @property
    def scheme(self) -> str:
        return "s3://" if self.data.startswith("s3://") else ""

    def open_filesystem(self) -> tuple[fs.FileSystem, str]:
        """Open the file system; return it, and the path of the place in it."""
        if not self.scheme:
            return fs.LocalFileSystem(), os.path.realpath(self.data)
        names = {"KEY_ID": "access_key", "SECRET": "secret_key", "SESSION_TOKEN": "session_token", "REGION": "region", "ENDPOINT": "endpoint_override"}
        found = s3_settings()
        options = {name: found[key] for key, name in {**names, "SCHEME": "scheme"}.items() if key in found}
        return fs.S3FileSystem(**options), self.data.removeprefix("s3://")

    @contextmanager
    def reach_filesystem(self) -> Iterator[tuple[fs.FileSystem, str]]:
        """Yield the result of `open_filesystem`. Raises Unreachable if S3 does not answer, or answers with an error."""
        try:
            yield self.open_filesystem()
        except OSError as error:
            if not self.scheme or isinstance(error, FileNotFoundError):
                raise
            raise Unreachable(f"the storage {self.data} does not answer: {' '.join(str(error).split())}") from error

    def name(self, path: str) -> str | None:
        """Return the name of a file from its full path; None for a file outside the place."""
        return path.removeprefix(f"{self.data}/") if path.startswith(f"{self.data}/") else None

    def files(self, folder: str = "") -> list[str]:
        """List the name of every file below the place, or below a folder of it. Links are not followed."""
        with self.reach_filesystem() as (system, root):
            top = f"{root}/{folder}" if folder else root
            if self.scheme:
                # a request for a thousand files, and not one for every folder
                found = system.get_file_info(fs.FileSelector(top, recursive=True, allow_not_found=True))
                return sorted(f.path.removeprefix(f"{root}/") for f in found if f.type != fs.FileType.Directory)
            return sorted(path.removeprefix(f"{root}/") for path in walk(system, top))

    def first_file(self) -> str | None:
        """Find the name of a file below the place with few requests; None if the place is empty."""
        with self.reach_filesystem() as (system, root):
            return next((path.removeprefix(f"{root}/") for path in walk(system, root)), None)

    def other_marks(self, own: str | None) -> list[str]:
        """List the marks of other lakes in the place and in every folder that contains it, except marks that we are not permitted to see."""
        with self.reach_filesystem() as (system, root):
            return [f"{self.scheme}{mark}" for folder in enclosing_folders(root) for mark in marks(system, folder) if mark_of(own) not in mark]

    def has_mark(self, own: str) -> bool:
        with self.reach_filesystem() as (system, root):
            return f"{root}/{mark_of(own)}" in marks(system, root)

    def read_mark(self, own: str) -> Mark | None:
        """Read a lake's mark; None if an earlier release wrote it, without a word. Raises AtlasError for a mark that no lake writes."""
        none = AtlasError(f"the mark {self.data}/{mark_of(own)} is not one that a lake writes: move it away, and run the command again")
        with self.reach_filesystem() as (system, root):
            path = f"{root}/{mark_of(own)}"
            # a pipe is waited for, and a link is another's file
            if not self.scheme and not stat.S_ISREG(os.lstat(path).st_mode):
                raise none
            with system.open_input_stream(path) as stream:
                try:
                    found = json.loads(stream.read(LONGEST_MARK))
                except (ValueError, RecursionError) as error:
                    raise none from error
        if not isinstance(found, dict) or "word" not in found:
            return None
        if not (isinstance(found["word"], str) and WORD.fullmatch(found["word"])):
            raise none
        return Mark(str(found.get("database")), found["word"])

    def mark(self, own: str, lake: Lake, mark: Mark) -> None:
        """Write the lake's mark into its place. Raises AtlasError, and leaves no mark, if another lake has marked the place meanwhile."""
        said = {
            "identity": own,
            "catalogue": lake.catalogue,
            "database": mark.database,
            "word": mark.word,
            "is": "the mark of a lake of activation-atlas, to which the files in this folder belong",
        }
        with self.reach_filesystem() as (system, root):
            path, content = f"{root}/{mark_of(own)}", json.dumps(said, indent=2).encode()
            system.create_dir(f"{root}/{MARKS}", recursive=True)
            if self.scheme:
                with system.open_output_stream(path) as stream:
                    stream.write(content)
            else:
                write_whole(Path(path), content)
            if self.other_marks(own):
                system.delete_file(path)
        self.refuse_others(own)

    def refuse_others(self, own: str | None) -> None:
        """Raise AtlasError if the place, or a folder that contains it, is another lake's."""
        for mark in self.other_marks(own):
            theirs = mark.rpartition(f"/{MARKS}/")[0]
            where = "is the place" if theirs == f"{self.scheme}{self.open_filesystem()[1]}" else f"lies in {theirs}, the place"
            raise AtlasError(f"{self.data} {where} of another lake, whose mark is {mark}: {ELSEWHERE}")

    def refuse_filled(self) -> None:
        """Raise AtlasError if the place is not empty, or is within another lake's."""
        self.refuse_others(None)
        with self.reach_filesystem() as (system, root):
            if system.get_file_info(root).type == fs.FileType.File:
                raise AtlasError(f"{self.data} is a file in the place of a lake's folder: {ELSEWHERE}")
        if (found := self.first_file()) is None:
            return
        if MARK.fullmatch(found):
            raise AtlasError(f"{self.data} contains the place of another lake, whose mark is {self.data}/{found}: {ELSEWHERE}")
        raise AtlasError(f"{self.data} is not empty: it contains {found}, which might be mistaken for the lake's: {ELSEWHERE}")

    def remove(self, own: str, mark: Mark, names: Collection[str]) -> None:
        """Remove files, even if some are gone already. Raises AtlasError for a name that no lake gives, or if the place does not have the lake's own mark."""
        if strange := sorted(name for name in names if not OWN.fullmatch(name)):
            raise AtlasError(f"{self.data}/{strange[0]} is not a name that a lake gives its files: nothing was removed")
        self.refuse_others(own)
        if not self.has_mark(own):
            raise AtlasError(f"the mark {self.data}/{mark_of(own)} is gone, and without it nothing in {self.data} is removed: run the command again")
        if self.read_mark(own) != mark:
            raise AtlasError(f"the mark {self.data}/{mark_of(own)} was overwritten meanwhile by a catalogue that is a copy of this one: nothing was removed")
        with self.reach_filesystem() as (system, root), ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(file_remover(system), [f"{root}/{name}" for name in names]))


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file or link at `path` by a new file. If the process dies before the end, the old file or link remains."""
    remove_left(path)
    draft = new_draft(path)
    with draft.open("xb") as file:
        file.write(content)
    put_in_place(draft, path)


ELSEWHERE = "give --data an empty folder or prefix for this lake alone"


def file_remover(system: fs.FileSystem) -> Callable[[str], None]:
    def remove(path: str) -> None:
        with suppress(FileNotFoundError):
            system.delete_file(path)

    return remove


def mark_of(own: str | None) -> str:
    """Return the name of a lake's mark; without an identity, a name that no lake's mark has."""
    return f"{MARKS}/{own}.json"


def walk(system: fs.FileSystem, root: str) -> Iterator[str]:
    """Yield the paths of the files below a folder, those directly in it before those in its subfolders. Links are not followed."""
    folders = [root]
    while folders:
        files, more = entries(system, folders.pop(0))
        yield from files
        folders += more


def entries(system: fs.FileSystem, folder: str) -> tuple[list[str], list[str]]:
    """List the paths of the files in a folder and of the folders in it, in order. On a disk, a link counts as a file, wherever it leads."""
    if not isinstance(system, fs.LocalFileSystem):
        found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        is_folder = {f.path: f.type == fs.FileType.Directory for f in found}
    else:
        is_folder = {}
        with suppress(FileNotFoundError), os.scandir(folder) as there:
            is_folder = {entry.path: entry.is_dir(follow_symlinks=False) for entry in there}
    return sorted(path for path in is_folder if not is_folder[path]), sorted(path for path in is_folder if is_folder[path])


def enclosing_folders(root: str) -> list[str]:
    """List a folder of a file system and all folders that contain it, from the inside out."""
    return [root, *(str(folder) for folder in PurePosixPath(root).parents if str(folder) != ".")]


def marks(system: fs.FileSystem, folder: str) -> list[str]:
    """List the paths of the marks in a folder."""
    try:
        found = system.get_file_info(fs.FileSelector(f"{folder.rstrip('/')}/{MARKS}", allow_not_found=True))
    except (PermissionError, NotADirectoryError):
        return []
    except OSError as error:
        # keys may be for a part of a bucket alone
        if "ACCESS_DENIED" not in str(error):
            raise
        return []
    return sorted(f.path for f in found if f.type == fs.FileType.File and MARK.fullmatch(f.path))

"""The place of a lake's files: whose it is, and what in it may be removed.

DATA/atlas-lake/IDENTITY.json     the mark: all that follows is of the lake that has this identity
DATA/main/TABLE/ducklake-….parquet, and DATA/parts/…     by DuckLake
DATA/shards/RUN-SHARD-…/          by workers, see ingest/store/lake/staging.py

An identity is given by DuckLake when it makes a catalogue, and no two have one but where a database was copied, by whatever means, or forged. So the mark has
a word that the catalogue has too, and both get another whenever the lake is opened for writing: of two copies one does not know it from then on, and removes
nothing. Marks are named by the identity, so that of two lakes that begin in one place at once neither writes over the other's: each writes its own first and
looks for others then.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pyarrow import fs

from schema.errors import AtlasError, Unreachable
from schema.lake import Lake, has_catalogue, s3_settings

if TYPE_CHECKING:
    from psycopg import Connection

MARKS = "atlas-lake"
"""Folder of the marks in a place."""

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
MARK = re.compile(rf"(?:.*/)?{MARKS}/{UUID}\.json")
OWN = re.compile(
    rf"(?:main|parts)/[a-z0-9_]+/ducklake-{UUID}(?:-delete)?\.parquet|shards/[0-9]{{3,}}-[0-9]{{5,}}-[0-9a-f]{{12}}/(?:[a-z0-9_]+\.parquet|manifest\.json)"
)
"""Names, from the place on, that a lake's writers give. They begin there and nowhere deeper, so a lake within the place of another has none of them."""

LONGEST_MARK = 1 << 16
"""Bytes of a mark that are read."""

AT_ONCE = 8
"""Files that are being removed."""


def identity(session: "Connection") -> str | None:
    """What tells a lake from every other; None where the catalogue is not made yet."""
    if not has_catalogue(session):
        return None
    ((found,),) = session.execute("SELECT s.schema_uuid FROM ducklake_schema AS s WHERE s.schema_name = 'main' AND s.end_snapshot IS NULL").fetchall()
    return str(found)


def known_words(session: "Connection") -> set[str]:
    """The words that a mark may have from this catalogue: the last, and the one before, of whoever died between the two writings."""
    session.execute("CREATE TABLE IF NOT EXISTS atlas_mark (word TEXT, former TEXT)")
    return {word for row in session.execute("SELECT m.word, m.former FROM atlas_mark AS m").fetchall() for word in row if word is not None}


def keep_word(session: "Connection", word: str, former: str | None) -> None:
    """Keep the word of the next mark, and that of the one that lies there."""
    with session.transaction():
        session.execute("DELETE FROM atlas_mark")
        session.execute("INSERT INTO atlas_mark VALUES (%s, %s)", [word, former])


@dataclass(frozen=True)
class Place:
    """Where the files of a lake are. Names of files go from there on, and marks are whole paths."""

    data: str

    @property
    def scheme(self) -> str:
        return "s3://" if self.data.startswith("s3://") else ""

    def opened(self) -> tuple[fs.FileSystem, str]:
        """The file system, and the place in it."""
        if not self.scheme:
            return fs.LocalFileSystem(), os.path.realpath(self.data)
        names = {"KEY_ID": "access_key", "SECRET": "secret_key", "SESSION_TOKEN": "session_token", "REGION": "region", "ENDPOINT": "endpoint_override"}
        found = s3_settings()
        options = {name: found[key] for key, name in {**names, "SCHEME": "scheme"}.items() if key in found}
        return fs.S3FileSystem(**options), self.data.removeprefix("s3://")

    @contextmanager
    def reached(self) -> Iterator[tuple[fs.FileSystem, str]]:
        """The same. Raises Unreachable where S3 does not answer, or not as asked."""
        try:
            yield self.opened()
        except OSError as error:
            if not self.scheme or isinstance(error, FileNotFoundError):
                raise
            raise Unreachable(f"the storage {self.data} does not answer: {' '.join(str(error).split())}") from error

    def name(self, path: str) -> str | None:
        """The name of a file by its whole path, None of one that lies elsewhere."""
        return path.removeprefix(f"{self.data}/") if path.startswith(f"{self.data}/") else None

    def files(self, folder: str = "") -> list[str]:
        """The name of every file below, or below a folder of the place. What a link leads to is not below."""
        with self.reached() as (system, root):
            top = f"{root}/{folder}" if folder else root
            if self.scheme:
                # a request for a thousand files, and not one for every folder
                found = system.get_file_info(fs.FileSelector(top, recursive=True, allow_not_found=True))
                return sorted(f.path.removeprefix(f"{root}/") for f in found if f.type != fs.FileType.Directory)
            return sorted(path.removeprefix(f"{root}/") for path in walk(system, top))

    def first_file(self) -> str | None:
        """The name of a file below, found with few requests; None in an empty place."""
        with self.reached() as (system, root):
            return next((path.removeprefix(f"{root}/") for path in walk(system, root)), None)

    def others(self, own: str | None) -> list[str]:
        """Marks of other lakes at the place and in every folder that it lies in; those that nobody lets us see are not among them."""
        with self.reached() as (system, root):
            return [f"{self.scheme}{mark}" for folder in around(root) for mark in marks(system, folder) if mark_of(own) not in mark]

    def is_marked(self, own: str) -> bool:
        with self.reached() as (system, root):
            return f"{root}/{mark_of(own)}" in marks(system, root)

    def read_mark(self, own: str) -> str | None:
        """The word in a lake's mark; None where an earlier release wrote it, without one."""
        with self.reached() as (system, root), system.open_input_stream(f"{root}/{mark_of(own)}") as stream:
            try:
                found = json.loads(stream.read(LONGEST_MARK))
            except (ValueError, RecursionError) as error:
                raise AtlasError(f"the mark {self.data}/{mark_of(own)} is none that a lake writes: move it away, and run the command again") from error
        return str(found["word"]) if isinstance(found, dict) and "word" in found else None

    def mark(self, own: str, lake: Lake, word: str) -> None:
        """Say in the place whose it is. Raises AtlasError, with no mark left, where another lake has done so meanwhile."""
        said = {
            "identity": own,
            "catalogue": lake.catalogue,
            "word": word,
            "is": "the mark of a lake of activation-atlas, to which the files in this folder belong",
        }
        with self.reached() as (system, root):
            system.create_dir(f"{root}/{MARKS}", recursive=True)
            with system.open_output_stream(f"{root}/{mark_of(own)}") as stream:
                stream.write(json.dumps(said, indent=2).encode())
            if self.others(own):
                system.delete_file(f"{root}/{mark_of(own)}")
        self.refuse_others(own)

    def refuse_others(self, own: str | None) -> None:
        """Raise AtlasError where the place, or one that it lies in, is another lake's."""
        for mark in self.others(own):
            theirs = mark.rpartition(f"/{MARKS}/")[0]
            where = "is the place" if theirs == f"{self.scheme}{self.opened()[1]}" else f"lies in {theirs}, the place"
            raise AtlasError(f"{self.data} {where} of another lake, whose mark is {mark}: {ELSEWHERE}")

    def refuse_filled(self) -> None:
        """Raise AtlasError where anything lies in the place, or the place in another lake's."""
        self.refuse_others(None)
        with self.reached() as (system, root):
            if system.get_file_info(root).type == fs.FileType.File:
                raise AtlasError(f"{self.data} is a file, where the files of a lake would be: {ELSEWHERE}")
        if (found := self.first_file()) is None:
            return
        if MARK.fullmatch(found):
            raise AtlasError(f"another lake's place lies in {self.data}, its mark is {self.data}/{found}: {ELSEWHERE}")
        raise AtlasError(f"{self.data} is not empty, {found} lies there, and might be taken for the lake's: {ELSEWHERE}")

    def remove(self, own: str, word: str, names: Collection[str]) -> None:
        """Remove files, those that are gone already too. Raises AtlasError for a name that no lake gives, and where the place is not marked as its own."""
        if strange := sorted(name for name in names if not OWN.fullmatch(name)):
            raise AtlasError(f"{self.data}/{strange[0]} is no name of a lake's: nothing was removed")
        self.refuse_others(own)
        if not self.is_marked(own):
            raise AtlasError(f"the mark {self.data}/{mark_of(own)} is gone, without which nothing in {self.data} is removed: run the command again")
        if self.read_mark(own) != word:
            raise AtlasError(f"the mark {self.data}/{mark_of(own)} was written anew meanwhile, by a catalogue that is a copy of this one: nothing was removed")
        with self.reached() as (system, root), ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(removing(system), [f"{root}/{name}" for name in names]))


ELSEWHERE = "give --data an empty folder, or prefix, of the lake's own"


def removing(system: fs.FileSystem) -> Callable[[str], None]:
    def remove(path: str) -> None:
        with suppress(FileNotFoundError):
            system.delete_file(path)

    return remove


def mark_of(own: str | None) -> str:
    """The name of a mark; of no lake's mark where there is no identity."""
    return f"{MARKS}/{own}.json"


def walk(system: fs.FileSystem, root: str) -> Iterator[str]:
    """Paths of the files below a folder, those in it before those in folders of it. What a link leads to is not below."""
    folders = [root]
    while folders:
        files, more = entries(system, folders.pop(0))
        yield from files
        folders += more


def entries(system: fs.FileSystem, folder: str) -> tuple[list[str], list[str]]:
    """Paths of the files in a folder and of the folders in it, in order. On a disk a link is a file, wherever it leads."""
    if not isinstance(system, fs.LocalFileSystem):
        found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        is_folder = {f.path: f.type == fs.FileType.Directory for f in found}
    else:
        is_folder = {}
        with suppress(FileNotFoundError), os.scandir(folder) as there:
            is_folder = {entry.path: entry.is_dir(follow_symlinks=False) for entry in there}
    return sorted(path for path in is_folder if not is_folder[path]), sorted(path for path in is_folder if is_folder[path])


def around(root: str) -> list[str]:
    """A folder of a file system and all that it lies in, from the inside out."""
    return [root, *(str(folder) for folder in PurePosixPath(root).parents if str(folder) != ".")]


def marks(system: fs.FileSystem, folder: str) -> list[str]:
    """Paths of the marks in a folder."""
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

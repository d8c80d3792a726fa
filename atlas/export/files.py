"""Writing of an answer's files: whole or not at all, and never over the parts of an atlas."""

import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from schema.durable import put_in_place
from schema.errors import AtlasError
from schema.open.drafts import give_access

KEPT_SUFFIXES = (".duckdb", ".wal", ".lake", ".duckdb.tmp", ".duckdb.lock")
"""Suffixes of files that are never overwritten: atlases and annotations, DuckDB's log beside a file, descriptions of lakes, annotations being changed."""


def refuse_kept(path: Path) -> None:
    target = resolve_links(path)
    said = f"cannot write {path}: it leads to {target}, and" if path.is_symlink() else f"cannot write {path}:"
    if is_database(target):
        raise AtlasError(f"{said} it is a DuckDB file, which is never overwritten; give another name")
    if any(name.name.endswith(KEPT_SUFFIXES) or is_work(name) or is_key(name) for name in (path, target)):
        raise AtlasError(f"{said} a file of that name belongs to an atlas; give another name")
    if target.suffix == ".parquet" and target.exists() and not provenance_of(target).exists():
        beside = provenance_of(target).name
        raise AtlasError(f"{said} it may be a data file of a lake, for there is no {beside} beside it. Give another name, or remove the file")


def resolve_links(path: Path) -> Path:
    """Resolve the links of a path; if they lead in a circle, return the path itself, whereas Path.resolve raises an error of its own."""
    return Path(os.path.realpath(path))


def provenance_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.provenance.json")


def is_key(path: Path) -> bool:
    """Tell whether the file is in the folder of an atlas's keys."""
    return any(folder.suffix == ".keys" and folder.with_suffix(".duckdb").exists() for folder in path.parents)


def is_work(path: Path) -> bool:
    """Tell whether the file is in the folder in which an atlas is being made."""
    return any(folder.suffix == ".work" and (folder / "lock").exists() for folder in path.parents)


def is_database(path: Path) -> bool:
    """Tell whether the path is a DuckDB file: DUCK follows its eight bytes of checksum."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


def write_file(path: Path, content: bytes, *, provenance: bytes | None = None) -> None:
    """Write the file that `path` leads to, and NAME.provenance.json beside it; a pipe or a device stores nothing, and gets no provenance.

    Raises AtlasError if the folder is missing or not writable, or if the file is a part of an atlas, or has a name that such a part can have.
    A write that fails or is interrupted leaves the former files as they were.
    """
    if is_stream(path):
        with translate_write_errors(path):
            path.write_bytes(content)
        return
    beside = {} if provenance is None else {provenance_of(resolve_links(path)): provenance}
    contents = {path: content, **beside}
    for each in contents:
        refuse_kept(each)
    replace_all(contents)


def is_stream(path: Path) -> bool:
    """Tell whether a path takes bytes and must not be replaced: a pipe, a device, or the target of this process's own output."""
    with suppress(OSError):
        found = path.stat()
        return not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)) or any(os.path.samestat(found, own) for own in own_outputs())
    return False


def own_outputs() -> list[os.stat_result]:
    found = []
    for descriptor in (1, 2):
        with suppress(OSError):
            found.append(os.fstat(descriptor))
    return found


def replace_all(contents: Mapping[Path, bytes]) -> None:
    """Write drafts of all files, then put each in its place, so that a hard link to a former file keeps the former bytes."""
    drafts = {path: resolve_links(path).with_name(f".atlas-{secrets.token_hex(8)}.tmp") for path in contents}
    try:
        for path, draft in drafts.items():
            with translate_write_errors(path):
                write_draft(draft, resolve_links(path), contents[path])
        # an answer without its provenance might be a lake's; a provenance alone is in nobody's way
        for path, draft in reversed(drafts.items()):
            with translate_write_errors(path):
                put_in_place(draft, resolve_links(path))
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink()


def write_draft(draft: Path, target: Path, content: bytes) -> None:
    """Write the draft of a file, with the owner and the permissions of the file that it replaces."""
    is_there = os.path.lexists(target)
    if is_there:
        # a file that may not be written is not to be replaced either
        target.open("ab").close()
    with new_file(draft, target) as file:
        if is_there:
            give_access(file.fileno(), target.stat())
        file.write(content)


def new_file(draft: Path, target: Path) -> BinaryIO:
    try:
        return draft.open("xb")
    except PermissionError as error:
        raise AtlasError(f"cannot write {target}: no new file can be made in {target.parent}; name a file in another folder") from error


@contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AtlasError(f"cannot write {path}: {error.strerror}") from error

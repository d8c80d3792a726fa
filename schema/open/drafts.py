"""Drafts: files that are written under a name of their own and replace another file once they are complete; their names, and who may read them then."""

import os
import pwd
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schema.errors import AtlasError


def new_draft(target: Path) -> Path:
    """Draw an unused name beside the target; 64 of its bits are random."""
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


def is_draft(name: str, target: str) -> bool:
    """Tell whether a path is a name that `new_draft` gives for the target, or that of DuckDB's log beside such a draft; nothing else gives these names."""
    folder, _, last = target.rpartition("/")
    beside = re.escape(f"{folder}/") if folder else ""
    return re.fullmatch(rf"{beside}\.{re.escape(last)}\.[0-9a-f]{{16}}\.tmp(\.wal)?", name) is not None


def left_drafts(target: Path) -> list[Path]:
    """List the drafts of a target that killed writers left, and DuckDB's logs of these. The caller must hold the lock, or a draft may have a living writer."""
    return [path for path in target.parent.iterdir() if is_draft(path.name, target.name)]


def remove_left(target: Path) -> None:
    """Remove the drafts of a target that killed writers left. In a sticky folder another user's draft cannot be removed, and does no harm."""
    for draft in left_drafts(target):
        with suppress(OSError):
            draft.unlink()


@contextmanager
def copy_to_draft(whole: Path, target: Path, like: Path) -> Iterator[Path]:
    """Copy a complete file to a draft of the target, with the owner, group and mode of `like`, for the block to rename. If the block fails, remove the draft.

    Raises AtlasError if another file has got the draft's name meanwhile: in a shared folder other users can rename files. That file stays as it is.
    """
    draft = new_draft(target)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, stat.S_IRUSR | stat.S_IWUSR)
    own = os.fstat(descriptor)
    try:
        with os.fdopen(descriptor, "wb") as file, whole.open("rb") as source:
            shutil.copyfileobj(source, file)
            file.flush()
            give_access(descriptor, like.stat())
        if not is_file_at(own, draft):
            raise AtlasError(f"{draft} was put in the place of what was being written, by somebody who may write to this folder too: nothing was changed")
        yield draft
    except BaseException:
        if is_file_at(own, draft):
            draft.unlink()
        raise


def is_file_at(own: os.stat_result, path: Path) -> bool:
    """Tell whether the file of this status is at `path`, and not another file or a symbolic link."""
    return os.path.lexists(path) and os.path.samestat(own, path.lstat())


def discard(draft: Path) -> None:
    for path in (draft, Path(f"{draft}.wal")):
        path.unlink(missing_ok=True)


def give_access(descriptor: int, like: os.stat_result) -> None:
    """Give a new file, which is open, the owner, group and mode of another, as far as this user may."""
    with suppress(PermissionError):
        os.fchown(descriptor, -1, like.st_gid)
    with suppress(PermissionError):
        # only root may give a file to somebody else
        os.fchown(descriptor, like.st_uid, -1)
    mode = stat.S_IMODE(like.st_mode) & 0o666 | stat.S_IRUSR | stat.S_IWUSR
    if os.fstat(descriptor).st_gid != like.st_gid:
        # the rights of that group are none of another's
        mode &= ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    with suppress(PermissionError):
        os.fchmod(descriptor, mode)


def is_readable(path: Path) -> bool:
    """Tell whether this user may read an existing file."""
    return os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)


def owner(path: Path) -> str:
    """Return the name of the user who owns a file, or the user's number."""
    uid = path.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"

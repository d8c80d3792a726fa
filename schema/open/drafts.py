"""Drafts: files that are written under a temporary name, and that replace another file once they are complete. Here: their names, removal and permissions."""

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
    """Make a name for a draft beside the target; its 64 random bits make it unused."""
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


def is_draft(name: str, target: str) -> bool:
    """Tell whether `name` is a path of the form that `new_draft` gives for the target, or that of such a draft's DuckDB log. No other file has this form."""
    folder, _, last = target.rpartition("/")
    beside = re.escape(f"{folder}/") if folder else ""
    return re.fullmatch(rf"{beside}\.{re.escape(last)}\.[0-9a-f]{{16}}\.tmp(\.wal)?", name) is not None


def left_drafts(target: Path) -> list[Path]:
    """List the drafts of a target that killed writers left behind, and the drafts' DuckDB logs.

    The caller must hold the target's lock: otherwise a draft may belong to a writer that is still running.
    """
    return [path for path in target.parent.iterdir() if is_draft(path.name, target.name)]


def remove_left(target: Path) -> None:
    """Remove the drafts of a target that killed writers left behind. In a sticky folder another user's draft cannot be removed, and does no harm."""
    for draft in left_drafts(target):
        with suppress(OSError):
            draft.unlink()


@contextmanager
def copy_to_draft(whole: Path, target: Path, like: Path) -> Iterator[Path]:
    """Copy the complete file `whole` to a draft of the target, with the owner, group and mode of `like`, and yield the draft, which the block is to rename.

    If the block fails, the draft is removed. Raises AtlasError if another file has taken the draft's name meanwhile, since other users can rename files in a
    shared folder; that other file stays as it is.
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
            raise AtlasError(f"another user, who may write to this folder too, put another file in the place of the draft {draft}: nothing was changed")
        yield draft
    except BaseException:
        if is_file_at(own, draft):
            draft.unlink()
        raise


def is_file_at(own: os.stat_result, path: Path) -> bool:
    """Tell whether `path` is the file that has the status `own`, and not another file or a symbolic link."""
    return os.path.lexists(path) and os.path.samestat(own, path.lstat())


def discard(draft: Path) -> None:
    for path in (draft, Path(f"{draft}.wal")):
        path.unlink(missing_ok=True)


def give_access(descriptor: int, like: os.stat_result) -> None:
    """Give a new file, open as `descriptor`, the owner, group and mode in the status `like`, as far as this user may."""
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

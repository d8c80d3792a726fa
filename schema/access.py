"""Whose a file is and who may read it, for files that take the place of others in folders that several people share."""

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path


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
    """Whether this user may read a file that there is."""
    return os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)


def owner(path: Path) -> str:
    """The name of the user whose file it is, or the number."""
    uid = path.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"

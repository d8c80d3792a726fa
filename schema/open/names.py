"""Names of a file: a second name under which it is opened, the removal of second names that killed processes left, and quoting for SQL."""

import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path

from schema.open.logs import refuse_strange

MARKED = stat.S_ISVTX | stat.S_IRWXU
"""Mode of a folder of second names: no other user can enter it, and the sticky bit, which has no other effect, tells it from other private folders."""

OPENING = "opening-"
"""Part of the name of a folder of second names, after the name of the file."""

LEFT = 60.0
"""Seconds after which such a folder counts as left by a killed process if nobody locks it: its maker locks it at once."""


def escape_quotes(text: Path | str) -> str:
    """Escape a text for use between single quotes in SQL."""
    return str(text).replace("'", "''")


@contextmanager
def private_hardlink(path: Path) -> Iterator[Path]:
    """Yield a second name (a hard link) of the file, and make one of its log; both last as long as the block. If none can be made, yield the file's own name.

    While a process has a database open, DuckDB returns that database for every opening under the same name, even if the file has been replaced since. Also, SQL
    may name an opened path (`allowed_paths`) even after all other files are forbidden: by then the second name leads to nothing. Raises AtlasError if the file,
    or its log, is no regular file.
    """
    refuse_strange(path)
    with ExitStack() as stack:
        name = path
        with suppress(OSError):
            clear_left(path)
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.{OPENING}{os.getpid()}-", dir=path.parent))
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, handle)
            if os.listdir(handle):  # noqa: PTH208 (an open folder has no path)
                raise OSError(f"another folder has taken the place of {folder}")
            os.fchmod(handle, MARKED)
            made: list[str] = []
            stack.callback(remove_names, folder, handle, made)
            # until it is locked, it may be taken for one that was left
            with suppress(OSError):  # some network file systems have no such locks
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            link, log = folder / path.name, path.with_name(f"{path.name}.wal")
            # in the folder that was made, whatever has its name by now
            if log.exists():
                os.link(log.resolve(), log.name, dst_dir_fd=handle)
                made.append(log.name)
            os.link(path.resolve(), link.name, dst_dir_fd=handle)
            made.append(link.name)
            name = link
        yield name


def clear_left(path: Path) -> None:
    """Remove second names of the file whose makers were killed more than LEFT seconds ago: they keep replaced files on the disk."""
    for folder in left_names(path):
        if time.time() - folder.lstat().st_mtime > LEFT:
            remove_left(folder)


def left_names(path: Path) -> Iterator[Path]:
    """Yield the folders of second names whose makers were killed while opening the file: nobody locks them any more, and no process has the maker's PID."""
    for folder in sorted(path.parent.glob(f".{escape(path.name)}.{OPENING}*")):
        with lock_left(folder) as handle:
            pass
        if handle is not None and not has_maker(folder, path):
            yield folder


def has_maker(folder: Path, path: Path) -> bool:
    """Tell whether a process of this machine has the PID in the folder's name. Without locks on the file system, this alone shows that a folder is in use."""
    number = folder.name.removeprefix(f".{path.name}.{OPENING}").partition("-")[0]
    if not number.isascii() or not number.isdigit():
        return False
    with suppress(ProcessLookupError, OverflowError):
        try:
            os.kill(int(number), 0)
        except PermissionError:
            return True
        return True
    return False


def remove_left(folder: Path) -> None:
    """Remove a folder in which a killed process left second names (hard links) of an atlas; leave a folder that holds anything else.

    A process that has just made the folder, and not locked it yet, may find it gone.
    """
    with lock_left(folder) as handle:
        if handle is not None:
            name = folder.name[1:].rpartition(f".{OPENING}")[0]
            remove_names(folder, handle, [name, f"{name}.wal"])


def remove_names(folder: Path, handle: int, names: Iterable[str]) -> None:
    """Remove the hard links `names` from the folder open as `handle`, even if another folder now has its path; then remove `folder` if it is empty."""
    for link in names:
        with suppress(OSError):  # gone, or a folder that somebody put there
            os.unlink(link, dir_fd=handle)
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def lock_left(folder: Path) -> Iterator[int | None]:
    """Lock a folder of second names (hard links of open files) within the `with` block, and yield its handle.

    The handle is None if it is already locked, gone, a link, another user's, or not such a folder.
    """
    with ExitStack() as stack:
        found = None
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_hardlink_folder(folder, handle):
                found = handle
        yield found


def is_hardlink_folder(folder: Path, handle: int) -> bool:
    """Tell whether a folder looks as `private_hardlink` makes it: owned by this user, with a name of that form, MARKED, and holding only second names.

    In a shared folder another user can rename a folder of this user to such a name, but only this user can change its mode.
    """
    found, (name, _, drawn) = os.fstat(handle), folder.name[1:].rpartition(f".{OPENING}")
    is_marked = stat.S_IMODE(found.st_mode) & ~stat.S_ISGID == MARKED and found.st_uid == os.getuid()
    return is_marked and re.fullmatch(r"[0-9]{1,20}-[a-z0-9_]{8}", drawn) is not None and {*os.listdir(handle)} <= {name, f"{name}.wal"}

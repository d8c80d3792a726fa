"""Names of a file: another one for as long as it is opened, what is left of those whose makers were killed, and a name as it stands in SQL."""

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
"""Mode of a folder of other names: nobody else enters it, and the sticky bit, which means nothing there, tells it from what a user keeps to himself."""

OPENING = "opening-"
"""What the folder of a second name is called by, after the atlas."""

LEFT = 60.0
"""Seconds after which such a folder that nobody locks was left: whoever makes one locks it at once."""


def escape_quotes(text: Path | str) -> str:
    """Write a text as it stands between quotes in SQL."""
    return str(text).replace("'", "''")


@contextmanager
def private_hardlink(path: Path) -> Iterator[Path]:
    """Give the file, and a log beside it, another name for as long as it is being opened; its own where the folder allows no second.

    Within a process DuckDB hands out what it first opened under a name, for as long as that is open: not the snapshot that has been
    published since, nor what lies beside it and has changed. And what it opened stays among the paths that SQL may name when all others are shut
    (`allowed_paths`): by then this one names nothing. Raises AtlasError for what is no file, and for such a log.
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
    """Remove other names of the file whose makers were killed a while ago: they keep on the disk what has been replaced since."""
    for folder in left_names(path):
        if time.time() - folder.lstat().st_mtime > LEFT:
            remove_left(folder)


def left_names(path: Path) -> Iterator[Path]:
    """Yield folders of other names of the file whose makers were killed while opening it: nobody locks them any more, and no process has the maker's number."""
    for folder in sorted(path.parent.glob(f".{escape(path.name)}.{OPENING}*")):
        with lock_left(folder) as handle:
            pass
        if handle is not None and not has_maker(folder, path):
            yield folder


def has_maker(folder: Path, path: Path) -> bool:
    """Tell whether a process of this machine has the number that the folder is called by: where locks do nothing, nobody seems to hold one."""
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
    """Remove such a folder; whoever is making it just now waits for the lock, and finds it gone. What else somebody put there stays, and the folder with it."""
    with lock_left(folder) as handle:
        if handle is not None:
            name = folder.name[1:].rpartition(f".{OPENING}")[0]
            remove_names(folder, handle, [name, f"{name}.wal"])


def remove_names(folder: Path, handle: int, names: Iterable[str]) -> None:
    """Remove other names of the file, in the folder that is open, whatever has its name by now; and the folder if it is empty then."""
    for link in names:
        with suppress(OSError):  # gone, or a folder that somebody put there
            os.unlink(link, dir_fd=handle)
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def lock_left(folder: Path) -> Iterator[int | None]:
    """Lock a folder of this user's for the block, and give its handle; None for a folder of another's or locked, for a link, and if it has gone."""
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
    """Tell whether a folder is as `private_hardlink` makes one: this user's, named in that form, marked, and with other names of the file and nothing else.

    In a folder that several may write to, somebody may give that name to a folder of this user's, whose mode only this user can change.
    """
    found, (name, _, drawn) = os.fstat(handle), folder.name[1:].rpartition(f".{OPENING}")
    is_marked = stat.S_IMODE(found.st_mode) & ~stat.S_ISGID == MARKED and found.st_uid == os.getuid()
    return is_marked and re.fullmatch(r"[0-9]{1,20}-[a-z0-9_]{8}", drawn) is not None and {*os.listdir(handle)} <= {name, f"{name}.wal"}

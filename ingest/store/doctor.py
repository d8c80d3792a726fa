"""Faults of an atlas, and their repair; faults of its working folder: ingest/store/doctor_work.py.

The search changes nothing. A repair removes only left-overs and files that ingest computes again, renames files that may be of value, and never touches
companion files, such as annotations.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ingest.store.committer import work_folder
from schema.durable import put_in_place
from schema.errors import AtlasError, NotAnAtlas
from schema.open.companion import attach_file
from schema.open.kinds import Companion, kinds
from schema.open.logs import has_log, log_of, suggest_log_remedy
from schema.open.names import left_names, remove_left
from schema.open.store import is_duckdb, open_reader, open_writer, refuse_name
from schema.patient import defer_interrupts
from schema.plain import check_plain
from schema.reading_back import read_in_subprocess


@dataclass(frozen=True)
class Finding:
    """One fault: what is wrong and where, its remedy, and the function that does the repair, or None if only a person can do it.

    is_fault: False if no repair is needed, because the next ingest deals with it. removes: paths that the repair removes.
    """

    what: str
    remedy: str
    repair: Callable[[], None] | None = None
    is_fault: bool = True
    removes: tuple[str, ...] = ()


def waiting_shards_finding(n: int) -> Finding:
    """Build the finding that n shards, of a file or a lake, were computed but not loaded."""
    return Finding(f"shards that wait to be loaded: {n}", "run the ingest again: it loads them", is_fault=False)


def findings(target: Path) -> Iterator[Finding]:
    """Yield the faults of an atlas one at a time, since the repair of one may also repair the next.

    Raises AtlasError if there is neither a file nor a working folder of that name, or if the file is not an atlas.
    """
    work = work_folder(target)
    if not target.exists() and not work.exists():
        raise AtlasError(f"there is no atlas at {target}, and no working folder {work} in which it is being made")
    if target.exists() and not work.exists() and not is_duckdb(target):
        raise NotAnAtlas(f"{target} is not an atlas: it is not a DuckDB file, and there is no folder {work}. It was left unchanged.")
    # or its name would pass for damage
    refuse_name(target)
    yield from snapshot_findings(target, work)
    yield from companion_findings(target)
    yield from space_findings(target)
    yield from left_name_findings(target)


def fault(path: Path) -> str | None:
    """Read a database from end to end and return its first fault, None if it has none. Raises Locked if another process writes to it."""
    (found,) = read_in_subprocess([path])
    return next(iter(found.faults), None)


def snapshot_findings(target: Path, work: Path) -> Iterator[Finding]:
    if has_log(target):
        yield Finding(f"{log_of(target)}: another program has written to the published atlas; ingest never leaves a log", suggest_log_remedy(target))
    elif target.exists():
        (found,) = read_in_subprocess([target])
        if found.faults:
            again = "run the ingest again" if not (work / "atlas.duckdb").exists() else f"run the ingest again: it continues from {work}"
            what = f"{target} does not read back as it was written: {found.faults[0]}"
            yield Finding(what, f"rename it to {find_aside_path(target)}, then {again}", partial(rename, target, find_aside_path(target)))
            return
        yield from (Finding(wrong, "run the ingest again, with --keys as before: it writes the file anew") for wrong in found.key_faults)
        try:
            check_plain(target)
            defer_interrupts(lambda: open_reader(target)).close()
        except NotAnAtlas as error:
            yield Finding(str(error), "nothing is wrong with the file itself")


def companion_findings(target: Path) -> Iterator[Finding]:
    for kind in kinds():
        path = kind.path(target)
        if has_log(path):
            yield Finding(f"{log_of(path)}: another program has written to the {kind.name}; `{kind.changed_by}` leaves no log", suggest_log_remedy(path))
        elif path.exists() and (wrong := fault(path)):
            yield Finding(
                f"{path} does not read back as it was written: {wrong}", f"no repair changes {kind.name}: restore the file from a backup, or {kind.again}"
            )
        elif path.exists() and (wrong := attach_fault(path, kind)):
            yield Finding(wrong, f"no repair changes {kind.name}, and nothing is wrong with the file itself")


def attach_fault(path: Path, kind: Companion) -> str | None:
    """Explain why an undamaged companion file cannot be attached; None if it can."""
    try:
        with closing(open_writer(":memory:")) as con:
            attach_file(con, path, kind)
    except AtlasError as error:
        return str(error)
    return None


def space_findings(target: Path) -> Iterator[Finding]:
    needed = target.stat().st_size if target.exists() else 0
    free = shutil.disk_usage(target.resolve().parent).free
    if free < needed:
        yield Finding(f"{target.resolve().parent} has {free / 1e6:,.0f} MB free, and the next snapshot needs about {needed / 1e6:,.0f} MB", "free some space")


def left_name_findings(target: Path) -> Iterator[Finding]:
    """Yield the folders of hard links that readers make while they open the snapshot, and that killed readers left."""
    for folder in left_names(target):
        yield Finding(f"{folder} was left by a reader that was killed", "remove it", partial(remove_left, folder), removes=(str(folder),))


def find_aside_path(path: Path) -> Path:
    """Find a free name to which a file can be moved: neither the name nor the name of its log is taken."""
    names = (path.with_name(f"{path.name}.damaged{'' if i == 0 else i}") for i in range(1000))
    return next(name for name in names if not any(os.path.lexists(each) for each in (name, log_of(name))))


def rename(file: Path, to: Path) -> None:
    """Rename a database and its log, to set them aside."""
    log = Path(f"{file}.wal")
    if log.exists():
        put_in_place(log, log_of(to))
    put_in_place(file, to)

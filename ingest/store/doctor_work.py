"""Faults of an atlas's working folder, and their repair; the rules are those of ingest/store/doctor.py."""

import re
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import duckdb

from ingest.store.committer import staging_folder, work_folder
from ingest.store.doctor import Finding, fault, find_aside_path, rename, waiting_shards_finding
from ingest.store.load import load_shard
from ingest.store.shards import WHOLE, discard, drafts, read_shard, remove, verify_shard
from ingest.store.work_file import check_belongs
from schema.build import create_tables
from schema.errors import AtlasError, NotAnAtlas
from schema.open.logs import log_of
from schema.open.older import read_d_model
from schema.open.store import SENT, open_unchanged, open_untrusted, open_writer
from schema.patient import make_interrupt_safe
from schema.plain import check_plain
from schema.release import stored_tables

BROKEN_LOG = re.compile(r"WAL.*byte position (\d+)")
"""Pattern of DuckDB's message that names the byte from which a log is damaged."""


def work_findings(target: Path) -> Iterator[Finding]:
    """Yield the faults of the working folder of an atlas, if there is one, one at a time."""
    work = work_folder(target)
    if work.exists():
        yield from draft_findings(work)
        yield from stray_findings(target, staging_folder(work))
        yield from work_file_findings(target, work)
        yield from shard_findings(staging_folder(work), width_of(target, work))


def draft_findings(work: Path) -> Iterator[Finding]:
    """Yield the files and shards that were being written when their writer died."""
    begun = [
        *work.glob("*.tmp"),
        *work.glob("*.tmp.wal"),
        *work.glob("*.partial"),
        *([] if staging_folder(work).is_symlink() else drafts(staging_folder(work))),
    ]
    for draft in sorted(begun):
        yield Finding(f"{draft} was being written when its writer died", "remove it", partial(remove, draft), removes=(str(draft),))


def stray_findings(target: Path, folder: Path) -> Iterator[Finding]:
    """Report files and folders among the shards that are not shards."""
    if folder.is_file() or folder.is_symlink():
        yield stray_finding(target, folder)
    yield from (stray_finding(target, path) for path in glob_without_links(folder, "*") if not path.is_dir() or path.is_symlink())
    yield from (stray_finding(target, path) for path in glob_without_links(folder, "*/[!.]*") if not is_shard(path))


def glob_without_links(folder: Path, pattern: str) -> list[Path]:
    """List the paths in a folder that match the pattern, without following symbolic links."""
    return sorted(path for path in folder.glob(pattern) if not folder.is_symlink() and not path.parent.is_symlink())


def stray_finding(target: Path, path: Path) -> Finding:
    # beside the atlas, because ingest removes the working folder when it has done
    kept = find_aside_path(target.with_name(f"{target.name}.{path.name}"))
    return Finding(f"{path} was not made by the ingest", f"move it to {kept}", partial(move, path, kept))


def move(path: Path, to: Path) -> None:
    path.rename(to)


def is_shard(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and WHOLE.fullmatch(path.name) is not None


def work_file_findings(target: Path, work: Path) -> Iterator[Finding]:
    file = work / "atlas.duckdb"
    if not file.exists():
        return
    if not (wrong := fault(file)):
        yield from foreign_file_findings(target, file)
        return
    log, place = log_of(file), BROKEN_LOG.search(wrong)
    if place is None:
        yield move_aside_finding(target, file, f"{file} does not read back: {wrong}")
        return
    end, kept = int(place[1]), find_aside_path(target.with_name(f"{target.name}.working.wal"))
    yield Finding(
        f"the log {log} is damaged from byte {end:,} on, as after a loss of power",
        f"copy it to {kept} and cut it at that byte: shards loaded before it are kept, and the ingest computes the rest again",
        partial(cut_log, log, end, kept),
    )


def foreign_file_findings(target: Path, file: Path) -> Iterator[Finding]:
    """Report a working file that is undamaged, but does not belong to this atlas."""
    try:
        check_plain(file)
        with closing(make_interrupt_safe(open_unchanged(file))) as con:
            check_belongs(con, file, target)
    except NotAnAtlas as error:
        yield move_aside_finding(target, file, str(error))


def move_aside_finding(target: Path, file: Path, what: str) -> Finding:
    # beside the atlas, as a stray
    kept = find_aside_path(target.with_name(f"{target.name}.working"))
    return Finding(what, f"move it to {kept}; the ingest continues from the last snapshot", partial(rename, file, kept))


def width_of(target: Path, work: Path) -> int | None:
    """Read d_model of the atlas that is being made; None if it is in neither the working file nor the snapshot."""
    for file in (work / "atlas.duckdb", target):
        with suppress(AtlasError, duckdb.Error), open_untrusted(file) as con:
            if (SENT, "model") in stored_tables(con) and (d_model := read_d_model(con, f"{SENT}.main.model")):
                return d_model
    return None


def shard_findings(folder: Path, d_model: int | None) -> Iterator[Finding]:
    n_whole = 0
    for path in (p for p in glob_without_links(folder, "*/[!.]*") if is_shard(p)):
        if wrong := shard_fault(path, d_model):
            yield Finding(f"{path} is damaged: {wrong}", "remove it; the ingest computes it again", partial(discard, path), removes=(str(path),))
        else:
            n_whole += 1
    if n_whole:
        yield waiting_shards_finding(n_whole)


def shard_fault(path: Path, d_model: int | None) -> str | None:
    """Explain why a shard cannot be loaded into an atlas of width d_model; None if it can."""
    try:
        shard = read_shard(path)
        verify_shard(shard)
        if d_model is not None:
            with closing(make_interrupt_safe(open_writer(":memory:"))) as con:
                create_tables(con, d_model)
                load_shard(con, shard)
    except AtlasError:
        return "its files do not match its manifest"
    except duckdb.Error as error:
        return f"its tables do not fit into an atlas: {str(error).splitlines()[0]}"
    return None


def cut_log(log: Path, end: int, copy: Path) -> None:
    """Copy the whole log to `copy`, and cut the log after its first `end` bytes, which are undamaged."""
    shutil.copyfile(log, copy)
    with log.open("r+b") as file:
        file.truncate(end)

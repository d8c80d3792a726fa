"""Shards on disk: a folder of Parquet files and a manifest, complete or absent.

atlas.duckdb.work/shards/worker-0/
  .000-00002.PID        being written
  000-00001/            complete: manifest.json and one Parquet file per table
"""

import hashlib
import json
import os
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from schema.durable import fsync, put_in_place
from schema.errors import AtlasError
from schema.table_facts import facts

WORDS = ["tail", "site", "direction", "selection", "projection", "removed", "control", "space"]
"""Columns with few distinct values, which are dictionary-encoded."""


WHOLE = re.compile(r"\d{3,}-\d{5,}")
"""Name of the folder of a complete shard."""

DRAFT = re.compile(r"\.\d{3,}-\d{5,}\.\d+(?:\.old)?")
"""Name of the folder of a shard while it is being written or removed."""


@dataclass(frozen=True)
class Shard:
    """A complete shard: its run and number, the row count of each table, and the digest of its files. path: a folder, or a place in a lake's storage.

    after: run and number of the shards that were computed with this one and must be loaded before it.
    """

    path: str
    run_id: int
    shard_id: int
    n_rows: dict[str, int]
    sha256: str
    worker: str
    after: Sequence[Sequence[int]] = ()


class Staging(Protocol):
    """The place where workers put shards for the committer to load. The object is sent to every worker, on any machine."""

    def write(self, worker: int, run_id: int, shard_id: int, tables: Mapping[str, pa.Table], after: Sequence[Sequence[int]] = ()) -> Shard:
        """Write a shard of a worker. Even if the process dies, the shard is there whole or not at all."""

    def waiting_shards(self) -> list[Shard]:
        """List the complete shards of all workers, in order."""

    def discard(self, shard: Shard) -> None:
        """Remove a shard, which was loaded or is not needed, from the waiting shards."""


@dataclass(frozen=True)
class Folder:
    """Shards on a disk that all workers share, with one folder per worker."""

    path: Path

    def write(self, worker: int, run_id: int, shard_id: int, tables: Mapping[str, pa.Table], after: Sequence[Sequence[int]] = ()) -> Shard:
        return write_shard(self.path / f"worker-{worker}", run_id, shard_id, tables, after)

    def waiting_shards(self) -> list[Shard]:
        return staged_shards(self.path)

    def discard(self, shard: Shard) -> None:
        discard(Path(shard.path))


def write_shard(folder: Path, run_id: int, shard_id: int, tables: Mapping[str, pa.Table], after: Sequence[Sequence[int]] = ()) -> Shard:
    """Write a shard under a temporary name, fsync every file, and rename the folder, so that the shard is there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"{run_id:03d}-{shard_id:05d}"
    draft = folder / f".{final.name}.{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    for name, table in tables.items():
        pq.write_table(table, draft / f"{name}.parquet", compression="none", use_dictionary=WORDS)
    manifest = {
        "run_id": run_id,
        "shard_id": shard_id,
        "n_rows": {name: table.num_rows for name, table in tables.items()},
        "sha256": files_sha256(draft, tables),
        "worker": f"{socket.gethostname()}:{os.getpid()}",
        "after": after,
    }
    (draft / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    for file in draft.iterdir():
        fsync(file)
    if final.exists():
        discard(final)
    put_in_place(draft, final)
    return read_shard(final)


def read_shard(path: Path) -> Shard:
    """Read the manifest of a complete shard; its files are checked by `verify_shard`. Raises AtlasError if the manifest is missing or damaged."""
    try:
        return shard_of(str(path), (path / "manifest.json").read_bytes())
    except OSError as error:
        raise damaged_shard_error(path, "its manifest cannot be read") from error


def shard_of(path: str, manifest: bytes) -> Shard:
    """Read a shard from the bytes of its manifest. Raises AtlasError if they are not what a worker writes.

    The manifest is checked because anybody may have written it, and its table names are used in SQL and in file names.
    """
    try:
        found = Shard(path, **json.loads(manifest))
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged_shard_error(path, "its manifest cannot be read") from error
    is_one = (
        is_number(found.run_id, 2**31)
        and is_number(found.shard_id, 2**31)
        and isinstance(found.n_rows, dict)
        and found.n_rows.keys() <= facts().filled_by.keys()
        and all(map(is_number, found.n_rows.values()))
        and isinstance(found.sha256, str)
        and isinstance(found.worker, str)
        and isinstance(found.after, (list, tuple))
        and all(isinstance(key, list) and len(key) == 2 and all(map(is_number, key)) for key in found.after)
    )
    if not is_one:
        raise damaged_shard_error(path, "its manifest is not one that a worker writes")
    return found


def is_number(x: object, end: int = 2**63) -> bool:
    """Tell whether a value can be a count, or the number of a run or a shard: an integer from 0 to below `end`."""
    return type(x) is int and 0 <= x < end


def damaged_shard_error(path: Path | str, what: str) -> AtlasError:
    return AtlasError(f"shard {path} is damaged: {what}. `atlas doctor --repair` removes it; the next run computes it again.")


def discard(path: Path) -> None:
    """Remove a shard's folder, which is renamed first, so that the shard is there whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.old")
    path.rename(draft)
    remove(draft)


def remove(path: Path) -> None:
    """Remove a file, or a folder with its contents."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def verify_shard(shard: Shard) -> None:
    """Raise AtlasError if a shard's files are not those that its manifest describes."""
    path = Path(shard.path)
    found = {p.name for p in path.iterdir()}
    expected = {f"{name}.parquet" for name in shard.n_rows} | {"manifest.json"}
    if found != expected or files_sha256(path, shard.n_rows) != shard.sha256:
        raise damaged_shard_error(path, "its files do not match its manifest")


def staged_shards(folder: Path) -> list[Shard]:
    """List the complete shards of all workers that wait to be loaded, in order, and remove the drafts of dead workers."""
    for path in (folder, *folder.glob("*")):
        if path.is_symlink():
            raise AtlasError(f"{path} is a symbolic link in the place of a folder of shards: remove it")
    for draft in drafts(folder):
        remove(draft)
    return [read_shard(p) for p in sorted(folder.glob("*/[!.]*"))]


def drafts(folder: Path) -> list[Path]:
    """List the shards of all workers that were being written or removed when the process ended, in order."""
    return sorted(path for path in folder.glob("*/.*") if DRAFT.fullmatch(path.name) and not path.parent.is_symlink())


def remove_staged(folder: Path) -> None:
    """Remove the shards of all workers, complete or not, and each folder that is then empty; links are left as they are."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for worker in (path for path in folder.glob("worker-*") if path.is_dir() and not path.is_symlink()):
        for path in worker.iterdir():
            if WHOLE.fullmatch(path.name) or DRAFT.fullmatch(path.name):
                remove(path)
        with suppress(OSError):  # somebody keeps something there
            worker.rmdir()
    with suppress(OSError):
        folder.rmdir()


def files_sha256(folder: Path, names: Mapping[str, object]) -> str:
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(f"{name}\0".encode())
        with (folder / f"{name}.parquet").open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()

"""Shards in a lake's storage: Parquet files that become the lake's own where they lie, and a manifest for as long as they wait.

DATA/shards/000-00001-5f0c…/
  trigger.parquet …     written first
  manifest.json         written last: the shard is complete; removed once it is loaded

Files without a manifest are the lake's, or were left by who died: only DuckLake knows which, and only `atlas compact` removes them.
"""

import hashlib
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from ingest.store.lake.place import OWN, Place
from ingest.store.lake.typed import typed
from ingest.store.shards import WORDS, Shard, damaged, shard_of
from schema.errors import AtlasError
from schema.lake import Lake


@dataclass(frozen=True)
class Storage:
    """The storage of a lake as a place for shards."""

    lake: Lake

    @property
    def place(self) -> Place:
        return Place(self.lake.data)

    def opened(self) -> tuple[fs.FileSystem, str]:
        """The file system, and the folder of the shards in it."""
        system, root = self.place.opened()
        return system, f"{root}/shards"

    def write(self, worker: int, run_id: int, shard_id: int, tables: Mapping[str, pa.Table], after: Sequence[Sequence[int]] = ()) -> Shard:
        """Every attempt has a folder of its own, so that a worker thought dead cannot write into another's."""
        with self.place.reached():
            system, root = self.opened()
            folder = f"{root}/{run_id:03d}-{shard_id:05d}-{uuid4().hex[:12]}"
            system.create_dir(folder, recursive=True)
            digest = hashlib.sha256()
            for name in sorted(tables):
                data = parquet(typed(name, tables[name]))
                digest.update(f"{name}\0".encode() + hashlib.sha256(data).digest())
                put(system, f"{folder}/{name}.parquet", data)
            manifest: dict[str, Any] = {
                "run_id": run_id,
                "shard_id": shard_id,
                "n_rows": {name: table.num_rows for name, table in tables.items()},
                "sha256": digest.hexdigest(),
                "worker": f"{socket.gethostname()}:{os.getpid()}",
                "after": after,
            }
            put(system, f"{folder}/manifest.json", json.dumps(manifest).encode())
            return Shard(f"{self.lake.data}/shards/{folder.removeprefix(root + '/')}", **manifest)

    def manifests(self) -> list[str]:
        """Names of all manifests, from the place on; what others call so deeper, or beside, is theirs."""
        with self.place.reached() as (system, root):
            found = system.get_file_info(fs.FileSelector(f"{root}/shards", recursive=True, allow_not_found=True))
            names = (f.path.removeprefix(f"{root}/") for f in found if f.base_name == "manifest.json")
            return sorted(name for name in names if OWN.fullmatch(name))

    def waiting(self) -> list[Shard]:
        return [self.read(name) for name in self.manifests()]

    def read(self, name: str) -> Shard:
        """The shard of a manifest. Raises AtlasError for one that is damaged."""
        path = f"{self.lake.data}/{name.removesuffix('/manifest.json')}"
        try:
            with self.place.reached() as (system, root), system.open_input_stream(f"{root}/{name}") as stream:
                return shard_of(path, stream.read())
        except FileNotFoundError as error:
            raise damaged(path, "its manifest cannot be read") from error

    def broken(self) -> list[tuple[str, str]]:
        """Names of manifests of shards that cannot be loaded, each with why: what it says is no manifest, or files of it are gone."""
        found = []
        for name in self.manifests():
            try:
                shard = self.read(name)
            except AtlasError as error:
                found.append((name, str(error)))
                continue
            with self.place.reached() as (system, root):
                folder = f"{root}/{name.removesuffix('/manifest.json')}"
                there = {f.base_name for f in system.get_file_info(fs.FileSelector(folder))}
            if gone := sorted({f"{table}.parquet" for table in shard.n_rows} - there):
                found.append((name, str(damaged(shard.path, f"{gone[0]} is gone"))))
        return found

    def discard(self, shard: Shard) -> None:
        """The manifest alone: its files may be the lake's by now."""
        with self.place.reached():
            system, root = self.opened()
            system.delete_file(f"{root}/{shard.path.removeprefix(f'{self.lake.data}/shards/')}/manifest.json")


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=WORDS)
    return sink.getvalue().to_pybytes()


def put(system: fs.FileSystem, path: str, data: bytes) -> None:
    with system.open_output_stream(path) as stream:
        stream.write(data)

"""Shards in a lake's storage: Parquet files, which become part of the lake's tables in place, and a manifest, until the shard is loaded.

DATA/shards/000-00001-5f0c…/
  trigger.parquet …     written first
  manifest.json         written last: the shard is complete; removed once it is loaded

Files without a manifest are the lake's, or were left by a worker that died: only DuckLake knows which, and only `atlas compact` and `atlas doctor --repair`
remove them.

Numbers are cast to the schema's types before they are written: a lake takes over files as they are, and refuses files with other types.
"""

import hashlib
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
from sqlalchemy import REAL, BigInteger, Boolean, Double, Integer, SmallInteger

from ingest.store.lake.place import OWN, Place
from ingest.store.shards import WORDS, Shard, damaged_shard_error, shard_of
from schema.errors import AtlasError
from schema.open.lake import Lake
from schema.tables import metadata

TYPES = {
    SmallInteger: pa.int16(), Integer: pa.int32(), BigInteger: pa.int64(), REAL: pa.float32(), Double: pa.float64(), Boolean: pa.bool_(),
}  # fmt: skip
"""Column type in the schema → Arrow type; columns of other types are left as they are."""


def cast_columns(name: str, rows: pa.Table) -> pa.Table:
    """Cast each number in the rows of a table to its column's type. Raises AtlasError for a number that the type cannot represent."""
    of = types(name)
    wanted = pa.schema([field.with_type(of.get(field.name, field.type)) for field in rows.schema])
    try:
        return rows if rows.schema.equals(wanted) else rows.cast(wanted)
    except pa.ArrowInvalid as error:
        raise AtlasError(f"table {name} cannot be written: {error}") from error


@cache
def types(name: str) -> dict[str, pa.DataType]:
    found = metadata(1).tables.get(name)
    return {} if found is None else {c.name: TYPES[type(c.type)] for c in found.columns if type(c.type) in TYPES}


@dataclass(frozen=True)
class Storage:
    """The staging area for shards in a lake's storage."""

    lake: Lake

    @property
    def place(self) -> Place:
        return Place(self.lake.data)

    def open_filesystem(self) -> tuple[fs.FileSystem, str]:
        """Open the file system; return it, and the path of the shards' folder in it."""
        system, root = self.place.open_filesystem()
        return system, f"{root}/shards"

    def write(self, worker: int, run_id: int, shard_id: int, tables: Mapping[str, pa.Table], after: Sequence[Sequence[int]] = ()) -> Shard:
        """Write a shard. Every attempt has a folder of its own, so that a worker that was wrongly given up cannot write into another worker's folder."""
        with self.place.reach_filesystem():
            system, root = self.open_filesystem()
            folder = f"{root}/{run_id:03d}-{shard_id:05d}-{uuid4().hex[:12]}"
            system.create_dir(folder, recursive=True)
            digest = hashlib.sha256()
            for name in sorted(tables):
                data = parquet(cast_columns(name, tables[name]))
                digest.update(f"{name}\0".encode() + hashlib.sha256(data).digest())
                write_file(system, f"{folder}/{name}.parquet", data)
            manifest: dict[str, Any] = {
                "run_id": run_id,
                "shard_id": shard_id,
                "n_rows": {name: table.num_rows for name, table in tables.items()},
                "sha256": digest.hexdigest(),
                "worker": f"{socket.gethostname()}:{os.getpid()}",
                "after": after,
            }
            write_file(system, f"{folder}/manifest.json", json.dumps(manifest).encode())
            return Shard(f"{self.lake.data}/shards/{folder.removeprefix(root + '/')}", **manifest)

    def manifests(self) -> list[str]:
        """List the names of all manifests, relative to the place. A manifest.json outside a shard's folder is not the lake's, and is left out."""
        return [name for name in self.place.files("shards") if name.endswith("/manifest.json") and OWN.fullmatch(name)]

    def waiting_shards(self) -> list[Shard]:
        return [self.read_shard(name) for name in self.manifests()]

    def read_shard(self, name: str) -> Shard:
        """Read a shard from its manifest. Raises AtlasError if the manifest is damaged."""
        path = f"{self.lake.data}/{name.removesuffix('/manifest.json')}"
        try:
            with self.place.reach_filesystem() as (system, root), system.open_input_stream(f"{root}/{name}") as stream:
                return shard_of(path, stream.read())
        except FileNotFoundError as error:
            raise damaged_shard_error(path, "its manifest cannot be read") from error

    def broken_manifests(self) -> list[tuple[str, str]]:
        """List the manifests of shards that cannot be loaded: the name of each, and the reason."""
        found = []
        for name in self.manifests():
            try:
                self.check(self.read_shard(name), name.removesuffix("/manifest.json"))
            except AtlasError as error:
                found.append((name, str(error)))
        return found

    def check(self, shard: Shard, folder: str) -> None:
        """Raise AtlasError unless every file that a manifest promises is there, with its rows, and with columns that its table has."""
        for table, n_rows in shard.n_rows.items():
            try:
                with self.place.reach_filesystem() as (system, root), system.open_input_file(f"{root}/{folder}/{table}.parquet") as file:
                    found = pq.ParquetFile(file)
                    n_found, columns = found.metadata.num_rows, {*found.schema_arrow.names}
            except (pa.ArrowException, FileNotFoundError, IsADirectoryError) as error:
                raise damaged_shard_error(shard.path, f"{table}.parquet cannot be read: {' '.join(str(error).split())}") from error
            if n_found != n_rows:
                raise damaged_shard_error(shard.path, f"{table}.parquet has {n_found} rows where the manifest says {n_rows}")
            if unknown := sorted(columns - {column.name for column in metadata(1).tables[table].columns}):
                raise damaged_shard_error(shard.path, f"{table}.parquet has a column {unknown[0]}, which the table does not have")

    def discard(self, shard: Shard) -> None:
        """Remove only the manifest of a shard: its Parquet files may be the lake's by now."""
        with self.place.reach_filesystem():
            system, root = self.open_filesystem()
            system.delete_file(f"{root}/{shard.path.removeprefix(f'{self.lake.data}/shards/')}/manifest.json")


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=WORDS)
    return sink.getvalue().to_pybytes()


def write_file(system: fs.FileSystem, path: str, data: bytes) -> None:
    with system.open_output_stream(path) as stream:
        stream.write(data)

"""Keys beside an atlas, read row group by row group: memory does not grow with the store."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from atlas.commands import complete
from schema.errors import AtlasError
from schema.key_files import COLUMNS, file_sha256, keys_folder

if TYPE_CHECKING:
    from collections.abc import Callable

STORES = "SELECT d.corpus_id, d.key_site, d.layer, d.n_entries, d.n_bytes, d.sha256 FROM datastore AS d ORDER BY d.corpus_id"
FILES = "SELECT f.name, f.n_bytes, f.sha256 FROM key_file AS f WHERE f.corpus_id = $corpus ORDER BY f.first_position_id"

BLOCK_BYTES = 2**26
"""Approximate bytes of the float32 keys of a block, which has several row groups."""

MOST_GROUP_BYTES = 2**28
"""Maximum bytes of the entries of a row group, which is read as a whole: a file of a few kilobytes may hold any number of equal entries.
`--keys` writes groups of 8 MiB."""


@dataclass(frozen=True)
class Block:
    """Entries in the order of position_id. first: number of the first entry in the store. keys: [n, d_model] float32; the other arrays are [n]."""

    first: int
    position_ids: np.ndarray
    document_ids: np.ndarray
    next_token_ids: np.ndarray
    keys: np.ndarray


@dataclass(frozen=True)
class Store:
    """The keys of one corpus. files: (path, bytes, sha256) of each file, in the order of position_id."""

    corpus_id: int
    key_site: str
    layer: int
    n_entries: int
    n_bytes: int
    sha256: str
    files: tuple[tuple[Path, int, str], ...]

    def check(self, d_model: int, advance: "Callable[[int], None]") -> None:
        """Raise AtlasError if a file is missing, is not the one that the atlas names, or does not have the form of keys of d_model numbers.

        advance: called with the number of bytes that were checked.
        """
        found_entries = 0
        for path, n_bytes, sha256 in self.files:
            if not path.is_file():
                raise AtlasError(f"no keys at {path}, which the atlas names for corpus {self.corpus_id}: {AGAIN}")
            if (found := path.stat().st_size) != n_bytes:
                raise AtlasError(f"{path} has {found:,} bytes where the atlas says {n_bytes:,}: {AGAIN}")
            if file_sha256(path) != sha256:
                raise AtlasError(f"{path} is not the file that belongs to this atlas, but one of another model or an earlier ingest: {AGAIN}")
            found_entries += count_entries(path, d_model)
            advance(n_bytes)
        if found_entries != self.n_entries:
            raise AtlasError(f"corpus {self.corpus_id} has {found_entries:,} keys where the atlas says {self.n_entries:,}: {AGAIN}")

    def blocks(self) -> Iterator[Block]:
        """Yield all entries, in blocks of about BLOCK_BYTES."""
        first = 0
        for path, *_ in self.files:
            with pq.ParquetFile(path) as file:
                held: list[pa.Table] = []
                for group in range(file.num_row_groups):
                    held.append(read_group(path, file, group))
                    if group + 1 == file.num_row_groups or 2 * sum(map(key_bytes, held)) >= BLOCK_BYTES:
                        block = block_of(first, pa.concat_tables(held))
                        held.clear()
                        first += len(block.position_ids)
                        yield block

    def keys_at(self, position_ids: np.ndarray) -> np.ndarray:
        """Read the keys of the given positions, [n, d_model] float32 in their order. Raises AtlasError if a position has no key."""
        order = np.argsort(position_ids)
        found = np.concatenate([block.keys[np.isin(block.position_ids, position_ids, assume_unique=True)] for block in self.blocks()])
        if len(found) != len(position_ids):
            raise AtlasError(f"{len(position_ids) - len(found)} of {len(position_ids)} queries of corpus {self.corpus_id} have no key")
        keys = np.empty_like(found)
        keys[order] = found
        return keys


AGAIN = "an ingest with --keys and the options of the ingest that made it writes it again"


ID_BYTES = 20
"""Bytes of an entry besides those of its key."""


def count_entries(path: Path, d_model: int) -> int:
    """Count the entries of a file. Raises AtlasError if it is not Parquet, has other columns than keys have, or has row groups too large to be read."""
    wanted = dict(zip(COLUMNS, (pa.int64(), pa.int64(), pa.int32(), pa.list_(pa.float16(), d_model)), strict=True))
    try:
        with pq.ParquetFile(path) as file:
            kinds = {field.name: field.type for field in file.schema_arrow}
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise AtlasError(f"{path} cannot be read as keys: {' '.join(str(error).split())}; {AGAIN}") from error
    if kinds != wanted:
        raise AtlasError(f"{path} has other columns than {', '.join(f'{name} {kind}' for name, kind in wanted.items())}: {AGAIN}")
    if (largest := max(sizes, default=0) * (2 * d_model + ID_BYTES)) > MOST_GROUP_BYTES:
        raise AtlasError(f"{path} has row groups of {largest:,} bytes, and at most {MOST_GROUP_BYTES:,} are read at once: {AGAIN}")
    return sum(sizes)


def read_group(path: Path, file: pq.ParquetFile, group: int) -> pa.Table:
    """Read one row group of a file of keys. Raises AtlasError if a page cannot be read, or an entry lacks a value."""
    try:
        found = file.read_row_group(group, columns=list(COLUMNS))
    except (pa.ArrowException, OSError) as error:
        raise AtlasError(f"{path} cannot be read as keys: {' '.join(str(error).split())}; {AGAIN}") from error
    if empty := [name for name in COLUMNS if found[name].null_count or (name == "key" and any(chunk.flatten().null_count for chunk in found[name].chunks))]:
        raise AtlasError(f"{path} has entries without {empty[0]}: {AGAIN}")
    return found


def key_bytes(table: pa.Table) -> int:
    return table.num_rows * table.schema.field("key").type.list_size * 2


def block_of(first: int, table: pa.Table) -> Block:
    keys = np.concatenate([chunk.flatten().to_numpy() for chunk in table["key"].chunks]).reshape(table.num_rows, -1).astype(np.float32)
    return Block(first, table["position_id"].to_numpy(), table["document_id"].to_numpy(), table["next_token_id"].to_numpy(), keys)


def store(con: duckdb.DuckDBPyConnection, atlas: Path, corpus_id: int) -> Store:
    """Find the keys of a corpus of the open atlas at the path `atlas`. Raises AtlasError if the corpus has none."""
    found = {row[0]: row for row in con.execute(STORES).fetchall()}
    if corpus_id not in found:
        again = complete(con, f"atlas ingest {quote(str(atlas))} --model … --corpus … --keys", corpus_id)
        raise AtlasError(f"no keys of corpus {corpus_id}; corpora with keys: {', '.join(map(str, found)) or 'none'}. `{again}` adds them")
    folder = keys_folder(atlas)
    files = con.execute(FILES, {"corpus": corpus_id}).fetchall()
    # a name may be anybody's: only what lies in the folder is read
    _, key_site, layer, n_entries, n_bytes, digest = found[corpus_id]
    return Store(corpus_id, key_site, layer, n_entries, n_bytes, digest, tuple((folder / Path(name).name, n, sha256) for name, n, sha256 in files))

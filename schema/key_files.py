"""Keys beside an atlas: the folder NAME.keys of Parquet files that `--keys` writes and `atlas retrieve` reads.

Each file holds one shard's entries in the order of position_id: position_id and document_id BIGINT, next_token_id INTEGER, key FLOAT16[d_model].
The table key_file of the atlas lists these files and their digests; a file in the folder that it does not list belongs to no atlas.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import duckdb

KEY_SITE = "ffn_in"
"""Site of the keys: the input of the FFN's up projection (Khandelwal et al. 2020, section 5 and table 5)."""

KEY_DTYPE = "float16"

COLUMNS = ("position_id", "document_id", "next_token_id", "key")


def keys_folder(atlas: Path | str) -> Path:
    """Return the path of the folder that holds the keys of the atlas at the path `atlas`."""
    return Path(atlas).with_name(f"{Path(atlas).stem}.keys")


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_key_faults(con: duckdb.DuckDBPyConnection, atlas: Path | str, schema: str = "main") -> Iterator[str]:
    """Yield a message for each key file of an atlas that is missing or has changed.

    Yield none if the whole folder is missing: an atlas may be sent without its keys.
    """
    folder = keys_folder(atlas)
    if not folder.exists():
        return
    there = {path.name for path in folder.iterdir() if path.is_file()}
    for name, sha256 in con.execute(f"SELECT f.name, f.sha256 FROM {schema}.key_file AS f ORDER BY ALL").fetchall():
        # by its name alone: somebody else may have written it
        path = folder / Path(name).name
        if path.name not in there:
            yield f"{path} is missing"
        elif file_sha256(path) != sha256:
            yield f"{path} is not the file that was written"

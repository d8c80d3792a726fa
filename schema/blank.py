"""What stands for a file that does not lie beside an atlas: its tables, empty, and its views and questions, in a file of the user's cache.

To attach that file takes a millisecond; to create what is in it takes as long as opening the atlas.
"""

import tempfile
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

import duckdb

from schema.definitions import cache_folder
from schema.store import open_writer

SMALLEST = 16384
"""Bytes of a block, the fewest that DuckDB allows: the file holds a row at most."""


def kept_blank(name: str, filling: str) -> Path | None:
    """A file with what `filling` creates in a database of that name, made where it is not kept yet. None where nothing can be kept."""
    file = cache_folder() / f"blank-{name}-{duckdb.__version__}-{sha256(filling.encode()).hexdigest()}.duckdb"
    if not file.is_file():
        with suppress(OSError, duckdb.IOException):
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".blank-", dir=file.parent) as folder:
                built(Path(folder) / file.name, name, filling).replace(file)
    return file if file.is_file() else None


def built(draft: Path, name: str, filling: str) -> Path:
    with closing(open_writer(":memory:")) as con:
        con.execute(f"ATTACH '{str(draft).replace(chr(39), chr(39) * 2)}' AS {name} (BLOCK_SIZE {SMALLEST})")
        con.execute(filling)
        con.execute(f"DETACH {name}")
    return draft

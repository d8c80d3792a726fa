"""What stands for a file that does not lie beside an atlas: its tables, empty, and its views and questions, in a file of the user's cache.

To attach that file takes a millisecond; to create what is in it takes as long as opening the atlas. It may cost time where it fails, and nothing else.
"""

import shutil
import tempfile
import time
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

import duckdb

from schema.definitions import cache_folder
from schema.lake import quoted
from schema.store import open_writer

SMALLEST = 16384
"""Bytes of a block, the fewest that DuckDB allows: the file holds a row at most."""

DRAFT = ".blank-"
"""What folders of drafts are called by; those of the second names by which these files are opened begin so too."""

LEFT_S = 3600
"""Seconds after which such a folder is one whose maker was killed."""


def kept_blank(name: str, filling: str) -> Path:
    """A file with what `filling` creates in a database of that name, made where it is not kept yet.

    Raises OSError, ValueError, RuntimeError or duckdb.Error where nothing can be kept: on a full disk, in another user's folder, under a name that DuckDB
    does not take.
    """
    file = cache_folder() / f"blank-{name}-{duckdb.__version__}-{sha256(filling.encode()).hexdigest()}.duckdb"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        remove_old(file.parent)
        with tempfile.TemporaryDirectory(prefix=DRAFT, dir=file.parent) as folder:
            built(Path(folder) / file.name, name, filling).replace(file)
    return file


def built(draft: Path, name: str, filling: str) -> Path:
    with closing(open_writer(":memory:")) as con:
        con.execute(f"ATTACH '{quoted(draft)}' AS {name} (BLOCK_SIZE {SMALLEST})")
        con.execute(filling)
        con.execute(f"DETACH {name}")
    return draft


def remove_old(folder: Path) -> None:
    for left in folder.glob(f"{DRAFT}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > LEFT_S:
                shutil.rmtree(left)

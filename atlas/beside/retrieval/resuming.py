"""Files of neighbours already found, kept until the retrieval is stored, so that a retrieval that is killed can resume.

Each file, NAME.retrievals.duckdb.work/DIGEST/PART-ROW.npz, holds the neighbours of some queries. DIGEST is a hash of everything that determines the
neighbours: keys, search, queries, versions.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from atlas.beside.retrieval import RETRIEVALS
from atlas.beside.retrieval.search import Neighbours
from schema.durable import put_in_place
from schema.errors import AtlasError

KEPT = re.compile(r"[a-z_]+-\d{9}\.npz(?:\.\d+)?")
"""Names of files of neighbours, and of their unfinished drafts."""

SAID = "is_training_text"
"""Column of a retrieval's row that a person states, and that has no effect on the neighbours."""


@dataclass(frozen=True)
class Batches:
    """Neighbours of the queries of one part (tune or test), stored in files of a folder. position_ids: those of all queries of the part, [n]."""

    folder: Path
    part: str
    position_ids: np.ndarray

    def load(self, rows: slice) -> Neighbours | None:
        """Read the stored neighbours of these queries; return None if there is no file, or if it is damaged or of other queries."""
        try:
            # opened here, since numpy leaves a file open that it cannot read; what somebody has planted expands to no more than it is
            with self.path(rows).open("rb") as file, ZipFile(file) as archive:
                if any(each.compress_type != ZIP_STORED for each in archive.infolist()):
                    return None
                file.seek(0)
                with np.load(file) as kept:
                    queries, *columns = (kept[name] for name in ("queries", *Neighbours._fields))
        except (OSError, EOFError, ValueError, KeyError, BadZipFile, MemoryError):
            return None
        is_theirs = np.array_equal(queries, self.position_ids[rows]) and {c.shape[:-1] for c in columns} == {queries.shape}
        return Neighbours(*columns) if is_theirs and len({c.shape for c in columns}) == 1 else None

    def save(self, rows: slice, found: Neighbours) -> None:
        """Store the neighbours of these queries, whole or not at all. Raises AtlasError if the folder cannot be written."""
        path = self.path(rows)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                np.savez(file, queries=self.position_ids[rows], **found._asdict())
            put_in_place(draft, path)
        except OSError as error:
            raise AtlasError(f"cannot write the neighbours found so far to {self.folder}: {error.strerror}") from error

    def path(self, rows: slice) -> Path:
        return self.folder / f"{self.part}-{rows.start:09d}.npz"


def work_folder(atlas: Path, row: Mapping[str, object]) -> Path:
    """Return the folder that holds the neighbours of a retrieval until the retrieval is stored. row: its columns that are known before the search."""
    of = {name: value for name, value in row.items() if name != SAID}
    digest = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()
    beside = RETRIEVALS.path(atlas)
    return beside.with_name(f"{beside.name}.work") / digest[:16]


def forget(folder: Path) -> None:
    """Remove the files of neighbours in a folder, then the folder and its parent if they are empty."""
    with suppress(OSError):
        for path in folder.iterdir():
            if KEPT.fullmatch(path.name):
                path.unlink()
        folder.rmdir()
        folder.parent.rmdir()

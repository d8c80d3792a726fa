"""Faults of the machine, reported in one line: no space, no permission, a database that could not write."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from ingest.store.committer import work_folder
from schema.errors import NO_SPACE, AtlasError
from schema.open.lake import is_lake

NO_PERMISSION = ("Permission denied", "Read-only file system", "Operation not permitted")


def what_is_left(target: Path) -> str:
    """Build the end of a message, such as '. The published atlas is as it was, …'. It mentions only what exists."""
    # what is loaded into a lake is in the lake, which the one file describes
    loaded = target if is_lake(target) else work_folder(target)
    parts = ["the published atlas is as it was"] * path_exists(target) + ["what was loaded is kept"] * path_exists(loaded)
    said = ", and ".join(parts)
    return f". {said[0].upper()}{said[1:]}" if said else ". Nothing was loaded"


def path_exists(path: Path) -> bool:
    """Tell whether a path exists; also False if the folder does not permit the check."""
    try:
        return path.exists()
    except OSError:
        return False


@contextmanager
def explain_write_errors(target: Path) -> Iterator[None]:
    """Turn an error of the disk, DuckDB or memory while `target` is written into an AtlasError that says what to do."""
    try:
        yield
    except (OSError, duckdb.Error, MemoryError) as error:
        text = str(error)
        kept = what_is_left(target)
        if any(t in text for t in NO_SPACE):
            raise AtlasError(f"no space left on the disk of {target.parent.resolve()}{kept}: free some space and run the same command again.") from error
        if any(t in text for t in NO_PERMISSION):
            raise AtlasError(f"no permission to write {target} or the folder {target}.work beside it: {text.splitlines()[0]}") from error
        if isinstance(error, MemoryError | duckdb.OutOfMemoryException):
            raise AtlasError(f"out of memory: {text.splitlines()[0]}{kept}: use a smaller --batch-size and run the same command again.") from error
        raise AtlasError(f"could not write {target}: {text.splitlines()[0]}{kept}. `atlas doctor {target}` says what is wrong.") from error

"""NAME.annotations.duckdb, to be changed."""

from contextlib import AbstractContextManager
from pathlib import Path

import duckdb

from atlas.annotations.kind import ANNOTATIONS
from schema import beside_change


def changing(path: Path | str) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    """As `schema.beside_change.changing`, of the annotations of the atlas at `path`: the database `annotations`."""
    return beside_change.changing(ANNOTATIONS, path)


def changing_own(path: Path | str) -> AbstractContextManager[tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyConnection]]:
    """As `schema.beside_change.changing_own`, of the same."""
    return beside_change.changing_own(ANNOTATIONS, path)

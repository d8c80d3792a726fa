"""The tiny atlas (tests/atlas/tiny_atlas.py), written once for all tests of what reads an atlas."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import atlas
from schema import store
from schema.build import create_tables, install_derived
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.tiny_atlas import write_tiny_atlas


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_tiny_atlas(tmp_path_factory.mktemp("tiny") / "tiny.duckdb")
    write_tiny_annotations(path)
    return path


@pytest.fixture
def a(tiny_path: Path) -> Iterator[atlas.Atlas]:
    with atlas.open(tiny_path) as opened:
        yield opened


@pytest.fixture
def tiny_copy(tiny_path: Path, tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A copy that a test may change."""
    con = duckdb.connect(shutil.copy(tiny_path, tmp_path / "copy.duckdb"))
    yield con
    con.close()


@pytest.fixture
def empty_path(tmp_path: Path) -> Path:
    """An atlas with every table and no rows."""
    path = tmp_path / "empty.duckdb"
    con = store.open_writer(path)
    create_tables(con, 2)
    install_derived(con)
    con.close()
    return path


@pytest.fixture
def empty_atlas(empty_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect(str(empty_path))
    yield con
    con.close()

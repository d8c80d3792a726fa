"""The tiny atlas (tests/atlas/tiny_atlas.py), written once for all tests of what reads an atlas."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb
import pytest

import atlas
from schema import store
from schema.build import create_tables, install_derived
from schema.lake import Lake
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.tiny_atlas import write_tiny_atlas

if TYPE_CHECKING:
    from tests.lake.servers import Servers


# where there is no NVIDIA GPU numba's simulator runs the kernel for them; it is chosen before numba is first imported
if not Path("/dev/nvidiactl").exists():
    assert "numba" not in sys.modules
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lake", action="store_true", help="let the tiny atlas be a lake, with a PostgreSQL and an S3 endpoint of its own")


@pytest.fixture(scope="session")
def servers() -> Iterator["Servers"]:
    """A PostgreSQL and an S3 endpoint, which this process is told of as a user would tell it."""
    from tests.lake.servers import serving

    # not among pytest's folders: another session takes from them the access that PostgreSQL's own user has
    with TemporaryDirectory(prefix="servers-") as folder, serving(Path(folder)) as started, pytest.MonkeyPatch.context() as patched:
        for name, value in started.environment.items():
            patched.setenv(name, value)
        yield started


@pytest.fixture(scope="session")
def tiny_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_tiny_atlas(tmp_path_factory.mktemp("tiny") / "tiny.duckdb")
    if request.config.getoption("--lake"):
        from tests.lake.pushed import push

        started = request.getfixturevalue("servers")
        path = push(path, path.with_suffix(".lake"), Lake(started.catalogue("tiny"), started.data("tiny")))
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

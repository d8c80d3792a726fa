"""The tiny atlas, written once for all tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tiny_atlas import write_tiny_atlas

import atlas


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_atlas(tmp_path_factory.mktemp("tiny") / "tiny.duckdb")


@pytest.fixture
def a(tiny_path: Path) -> Iterator[atlas.Atlas]:
    with atlas.open(tiny_path) as opened:
        yield opened

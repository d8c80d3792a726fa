"""One open atlas for all tests of a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import atlas


@pytest.fixture(scope="module")
def a(tiny_path: Path) -> Iterator[atlas.Atlas]:
    """They ask, and change nothing."""
    with atlas.open(tiny_path) as opened:
        yield opened

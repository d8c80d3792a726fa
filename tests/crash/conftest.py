"""A tiny model on disk, and what an atlas of it holds."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.exact.published import Published
from tests.exact.tiny import Tiny, make

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("opt"), "opt")


def sums(path: Path) -> dict[str, tuple]:
    """A checksum of every table."""
    published = Published(path)
    with closing(published.con):
        return published.checksums()

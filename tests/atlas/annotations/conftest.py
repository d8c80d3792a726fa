"""The nasty atlas, written once, and a copy for each test that annotates it."""

import shutil
from pathlib import Path

import pytest

from tests.atlas.annotations.nasty_atlas import write_nasty_atlas


@pytest.fixture(scope="session")
def nasty_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_nasty_atlas(tmp_path_factory.mktemp("nasty") / "nasty.duckdb")


@pytest.fixture
def nasty_path(nasty_original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(nasty_original, tmp_path))

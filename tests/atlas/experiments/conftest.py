"""The tiny atlas for each test, with its experiments beside it and without."""

import shutil
from pathlib import Path

import pytest

from atlas.beside.experiments import EXPERIMENTS


@pytest.fixture
def path(tiny_path: Path, tmp_path: Path) -> Path:
    """The tiny atlas without what lies beside it."""
    return Path(shutil.copy(tiny_path, tmp_path / "tiny.duckdb"))


@pytest.fixture
def full_path(path: Path, tiny_path: Path) -> Path:
    """With the tiny experiments beside it."""
    shutil.copy(EXPERIMENTS.path(tiny_path), EXPERIMENTS.path(path))
    return path

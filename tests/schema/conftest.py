"""What tests of opening share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from schema.open import definitions


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forget_definitions()
    yield tmp_path / "activation-atlas"
    forget_definitions()


def forget_definitions() -> None:
    """As a process that has opened no file yet."""
    definitions.KNOWN.clear()
    definitions.CHECKED.clear()


def without_second_names(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """As in a folder that may only be read: what is opened there has no second name."""
    made = tempfile.mkdtemp

    def refused(suffix: str | None = None, prefix: str | None = None, dir: Path | None = None) -> str:
        if dir == folder:
            raise PermissionError(dir)
        return made(suffix, prefix, dir)

    monkeypatch.setattr("schema.open.names.tempfile.mkdtemp", refused)

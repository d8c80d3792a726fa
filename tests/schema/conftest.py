"""What tests of opening share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from schema import definitions


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    definitions.KNOWN.clear()
    yield tmp_path / "activation-atlas"
    definitions.KNOWN.clear()

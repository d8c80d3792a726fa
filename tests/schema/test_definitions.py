"""What a release defines is built once, and what is kept of that is no more than a help."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import atlas
from schema import definitions


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    definitions.KNOWN.clear()
    yield tmp_path / "activation-atlas"
    definitions.KNOWN.clear()


def of_file(path: Path) -> str:
    """The database whose views answer, and one of their answers."""
    with atlas.open(path) as opened:
        assert len(opened.ask("geva2021_fig7")) > 0
        return opened.sql("SELECT current_database() AS name").item()


def test_it_is_built_once(kept: Path, tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_file(tiny_path) == "tiny"
    (before,) = [(p.name, p.read_text()) for p in kept.iterdir() if "definitions" in p.name and len(p.read_text()) == 64]
    definitions.KNOWN.clear()
    monkeypatch.setattr(definitions, "digest_of_release", lambda opened: pytest.fail("built again"))
    assert of_file(tiny_path) == "tiny"
    assert (kept / before[0]).read_text() == before[1]


@pytest.mark.parametrize("damage", ["other text", "no text", "a folder", "a file in the place of its folder"])
def test_what_is_kept_may_be_anything(kept: Path, tiny_path: Path, damage: str) -> None:
    of_file(tiny_path)
    for file in kept.iterdir():
        if damage == "other text":
            file.write_text("0" * 64)
        else:
            file.unlink()
            file.write_bytes(b"\xff\xfe") if damage == "no text" else file.mkdir()
    if damage == "a file in the place of its folder":
        kept.rename(kept.with_name("moved"))
        kept.write_text("")
    definitions.KNOWN.clear()
    # of a wrong digest the file's own are not taken, and the same ones are built beside it
    assert of_file(tiny_path) == ("memory" if damage == "other text" else "tiny")

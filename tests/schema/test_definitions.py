"""What a release defines is built once, and what is kept of that is no more than a help."""

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

import atlas
from schema.open import definitions
from schema.open.store import open_writer
from tests.schema.conftest import forget_definitions


def of_file(path: Path) -> str:
    """The database whose views answer, and one of their answers."""
    with atlas.open(path) as opened:
        assert len(opened.ask("geva2021_fig7", corpus=0)) > 0
        return opened.sql("SELECT current_database() AS name").item()


@pytest.mark.thorough
def test_it_is_built_once(kept: Path, tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_file(tiny_path) == "tiny"
    (before,) = [(p.name, p.read_text()) for p in kept.iterdir() if "definitions" in p.name and len(p.read_text()) == 64]
    forget_definitions()
    monkeypatch.setattr(definitions, "digest_of_release", lambda opened: pytest.fail("built again"))
    assert of_file(tiny_path) == "tiny"
    assert (kept / before[0]).read_text() == before[1]


def test_a_file_that_is_written_to_is_looked_at_again(kept: Path, tiny_path: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(tiny_path, tmp_path / "copy.duckdb"))
    assert of_file(copy) == "copy"
    with closing(open_writer(copy)) as con:
        con.execute("CREATE OR REPLACE MACRO top_triggers(layer, neuron, n := 10) AS TABLE SELECT 1 AS forged")
    assert of_file(copy) == "memory"


CONTENTS = {"no text": b"", "bytes": b"\xff\xfe"}


@pytest.mark.ci_cases(3)
@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["other text", "no text", "bytes", "a pipe that nobody writes to", "a folder", "a file in the place of its folder"])
def test_what_is_kept_may_be_anything(kept: Path, tiny_path: Path, damage: str) -> None:
    of_file(tiny_path)
    for file in kept.iterdir():
        if damage == "other text":
            file.write_text("0" * 64)
        else:
            file.unlink()
            if damage == "a pipe that nobody writes to":
                os.mkfifo(file)
            elif damage in CONTENTS:
                file.write_bytes(CONTENTS[damage])
            else:
                file.mkdir()
    if damage == "a file in the place of its folder":
        kept.rename(kept.with_name("moved"))
        kept.write_text("")
    forget_definitions()
    # of a wrong digest the file's own are not taken, and the same ones are built beside it
    assert of_file(tiny_path) == ("memory" if damage == "other text" else "tiny")


@pytest.mark.thorough
def test_a_file_without_text_is_written_again(kept: Path, tiny_path: Path) -> None:
    """As a machine that went down leaves one: else every opening would build what it lacks."""
    of_file(tiny_path)
    written = {file: file.read_text() for file in kept.iterdir()}
    for file in written:
        file.write_text("")
    forget_definitions()
    of_file(tiny_path)
    assert {file: file.read_text() for file in kept.iterdir()} == written


@pytest.mark.thorough
def test_a_user_without_a_home_keeps_nothing_and_is_answered(kept: Path, tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert of_file(tiny_path) == "tiny"
    assert not kept.exists()

"""The beginning of a file decides what it is said to be: damaged, in use, or nothing of ours."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from schema.errors import AtlasError, Locked, NotAnAtlas
from schema.open.store import open_reader
from tests.crash.conftest import ask_doctor, sums
from tests.exact.tiny import Tiny, run

DAMAGE = {"both headers": slice(4096, 12288), "one header": slice(8192, 12288), "the version": slice(12, 16)}


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_header_is_said_to_be_damage_and_mended(tiny: Tiny, tmp_path: Path, damage: str) -> None:
    target = run(tiny.request(tmp_path / "a.duckdb", trace=0, paper=False))
    expected, data = sums(target), bytearray(target.read_bytes())
    data[DAMAGE[damage]] = bytes(len(data[DAMAGE[damage]]))
    target.write_bytes(data)
    with pytest.raises(AtlasError, match=r"is damaged: .*`atlas doctor") as refused:
        run(tiny.request(target, trace=0, paper=False))
    assert not isinstance(refused.value, Locked | NotAnAtlas)
    with pytest.raises(AtlasError, match="is damaged"):
        open_reader(target)
    assert "is damaged" in ask_doctor(target, "--repair").output
    assert (tmp_path / "a.duckdb.damaged").read_bytes() == data
    assert sums(run(tiny.request(target, trace=0, paper=False))) == expected


@pytest.mark.parametrize("name", ["novel.txt", "mail.sqlite", "model.safetensors", "empty.duckdb"])
def test_the_doctor_does_nothing_to_what_is_no_atlas(tmp_path: Path, name: str) -> None:
    other = tmp_path / name
    if name == "mail.sqlite":
        with closing(sqlite3.connect(other)) as con:
            con.execute("CREATE TABLE mail (text)")
    else:
        other.write_bytes(b"" if name == "empty.duckdb" else b"It was the best of times. " * 500)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    said = ask_doctor(other, "--repair")
    assert isinstance(said.exception, NotAnAtlas)
    assert "is not an atlas" in str(said.exception)
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before

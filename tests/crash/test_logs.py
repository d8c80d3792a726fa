"""What somebody wrote beside an atlas is in a log that goes with that file alone: nothing replaces the file while there is one."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from ingest.store import committer
from schema.errors import AtlasError, NotAnAtlas
from schema.open.logs import log_of
from tests.crash.conftest import ask_doctor
from tests.exact.tiny import Tiny, run

WRITTEN = """
import os, sys, duckdb
con = duckdb.connect(sys.argv[1])
con.execute("SET wal_autocheckpoint = '1TB'")
con.execute("CREATE TABLE mine AS SELECT 42 AS answer")
os._exit(0)
"""
"""Writes to a file and dies before any of it is there."""


def write_beside(target: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITTEN, str(target)], check=True)
    assert log_of(target).stat().st_size > 0


def answers(target: Path) -> list[tuple[int]]:
    with closing(duckdb.connect(str(target))) as con:
        return con.execute("FROM mine").fetchall()


def test_an_ingest_beside_a_log_is_refused_and_says_how_to_bring_it_in(tiny: Tiny, tmp_path: Path) -> None:
    target = run(tiny.request(tmp_path / "a.duckdb", trace=0, paper=False))
    write_beside(target)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(AtlasError, match="CHECKPOINT") as refused:
        run(tiny.request(target))
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before
    said = ask_doctor(target, "--repair")
    assert isinstance(said.exception, AtlasError)
    (command,) = {text.split("`")[1] for text in (str(refused.value), said.output)}
    subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True)
    assert not log_of(target).exists()
    assert answers(target) == [(42,)]


@pytest.mark.thorough
def test_a_log_that_comes_while_an_ingest_runs_stops_its_publication(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = run(tiny.request(tmp_path / "a.duckdb", trace=0, paper=False))
    real = committer.recover
    monkeypatch.setattr("ingest.run.recover", lambda store: (write_beside(target), real(store)))
    with pytest.raises(AtlasError, match="CHECKPOINT"):
        run(tiny.request(target, paper=False))
    assert answers(target) == [(42,)]


def test_a_log_without_its_file_is_nobody_elses(tiny: Tiny, tmp_path: Path) -> None:
    target = tmp_path / "a.duckdb"
    log_of(target).write_bytes(b"of a file that was moved away")
    with pytest.raises(AtlasError, match="move the log away"):
        run(tiny.request(target, trace=0, paper=False))
    assert [p.name for p in tmp_path.iterdir()] == ["a.duckdb.wal"]


@pytest.mark.thorough
def test_an_empty_log_holds_nothing(tiny: Tiny, tmp_path: Path) -> None:
    target = run(tiny.request(tmp_path / "a.duckdb", trace=0, paper=False))
    log_of(target).touch()
    assert ask_doctor(target).exit_code == 0
    assert run(tiny.request(target, paper=False)).exists()


def test_a_table_that_somebody_made_in_an_atlas_is_not_dropped(tiny: Tiny, tmp_path: Path) -> None:
    target = run(tiny.request(tmp_path / "a.duckdb", trace=0, paper=False))
    with closing(duckdb.connect(str(target))) as con:
        con.execute("CREATE TABLE mine AS SELECT 42 AS answer")
    with pytest.raises(NotAnAtlas, match="would drop: mine"):
        run(tiny.request(target, paper=False))
    assert answers(target) == [(42,)]

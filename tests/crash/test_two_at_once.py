"""Ingests that begin and end at the same moment: one at a time has the working folder, the others are told, and none breaks another."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import torch

from tests import preloaded
from tests.crash.conftest import ASKED, sums
from tests.exact.tiny import Tiny

TAKEN = """
import os, sys, time
from pathlib import Path
from ingest.store.committer import held, remove_work
from schema.errors import Locked
target, ready, mine, others = Path(sys.argv[1]), Path(sys.argv[2]), 0, 0
(ready / str(os.getpid())).touch()
while len(list(ready.iterdir())) < 4:
    time.sleep(0.001)
while mine < 50:
    try:
        with held(target) as work:
            os.close(os.open(work / "snapshot.tmp", os.O_CREAT | os.O_EXCL))
            remove_work(work)
        mine += 1
    except Locked:
        others += 1
print(mine, others)
"""
"""Takes the working folder and removes it, as an ingest does, fifty times, once all four are there."""


def spoken(begun: list[Callable[[], subprocess.CompletedProcess[str]]]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each."""
    return [(done.returncode, done.stdout, done.stderr) for done in [ended() for ended in begun]]


def test_the_working_folder_has_one_owner_however_many_take_and_leave_it(tmp_path: Path) -> None:
    place, ready = tmp_path / "place", tmp_path / "ready"
    place.mkdir()
    ready.mkdir()
    found = spoken([preloaded.started(TAKEN, str(place / "a.duckdb"), str(ready)) for _ in range(4)])
    assert [code for code, _, _ in found] == [0] * 4, found
    mine, others = (sum(int(said.split()[i]) for _, said, _ in found) for i in (0, 1))
    assert mine == 200
    assert others > 0
    assert list(place.iterdir()) == []


def test_of_ingests_that_begin_together_each_ends_or_is_refused(tiny: Tiny, expected: dict, tmp_path: Path) -> None:
    target = tmp_path / "a.duckdb"
    code = ASKED.format(before="")
    begun = [preloaded.started(code, str(tiny.corpus.parent), str(target), str(torch.get_num_threads())) for _ in range(3)]
    found = [ended() for ended in begun]
    assert 0 in {done.returncode for done in found}, found
    refusals = [done.stderr.splitlines()[-1] for done in found if done.returncode]
    assert all(said.startswith(f"{target} is being made by another process") for said in refusals), refusals
    assert sums(target) == expected
    assert [p.name for p in tmp_path.iterdir()] == ["a.duckdb"]

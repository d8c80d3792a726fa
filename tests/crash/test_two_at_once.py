"""Ingests that begin and end at the same moment: one at a time has the working folder, the others are told, and none breaks another."""

import errno
import fcntl
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ingest.store.committer import lock_work_folder
from schema.errors import AtlasError
from schema.open.locks import hold_lock_file
from tests import preloaded
from tests.crash.conftest import ASKED, sums
from tests.exact.tiny import Tiny

TAKEN = """
import os, sys, time
from pathlib import Path
from ingest.store.committer import lock_work_folder, remove_work
from schema.errors import Locked
target, ready, mine, others = Path(sys.argv[1]), Path(sys.argv[2]), 0, 0
(ready / str(os.getpid())).touch()
while len(list(ready.iterdir())) < 4:
    time.sleep(0.001)
while mine < 50:
    try:
        with lock_work_folder(target) as work:
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.parametrize("lock", ["does nothing", "is not there"])
def test_where_a_file_system_holds_no_locks_all_are_refused_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: str) -> None:
    def flock(_: int, __: int) -> None:
        if lock == "is not there":
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    with lock_work_folder(tmp_path / "a.duckdb") as work:
        (work / "snapshot.tmp").write_text("of an ingest that was stopped")
    monkeypatch.setattr(fcntl, "flock", flock)
    said = "lies on a file system that does not enforce locks" if lock == "does nothing" else "cannot lock .*[Ww]ithout a lock"
    for _ in range(2):
        with pytest.raises(AtlasError, match=said), lock_work_folder(tmp_path / "a.duckdb"):
            pass
    with pytest.raises(AtlasError, match=said), hold_lock_file(tmp_path / "b", "b is held"):
        pass
    assert (work / "snapshot.tmp").read_text() == "of an ingest that was stopped"


@pytest.mark.thorough
def test_two_ingests_where_locks_do_nothing_leave_what_there_is(tiny: Tiny, expected: dict, tmp_path: Path) -> None:
    target = tmp_path / "a.duckdb"
    asked = (str(tiny.corpus.parent), str(target), str(torch.get_num_threads()))
    assert preloaded.run(ASKED.format(before=""), *asked).returncode == 0
    code = ASKED.format(before="import fcntl; fcntl.flock = lambda *_: None")
    found = [ended() for ended in [preloaded.started(code, *asked) for _ in range(2)]]
    said = [(done.returncode, "lies on a file system that does not enforce locks" in done.stderr.splitlines()[-1]) for done in found]
    assert said == [(1, True)] * 2, found
    assert sums(target) == expected

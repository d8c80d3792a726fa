"""What the machine may refuse or change under an ingest: space, permission, the time of day. None of it costs what was done before."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count, repeat
from pathlib import Path

import pytest
import torch

import atlas
from atlas.cli.tour import inventory
from ingest.store import committer, load, register
from schema.open.store import open_reader
from tests import preloaded
from tests.crash.conftest import ASKED, ROOT, ask_doctor, sums
from tests.exact.tiny import Tiny, run
from ui.snapshot import age, latest

FULL = """
import resource
from ingest.store import committer, shards
work = target.with_name(target.name + ".work")
def full(at):
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, resource.RLIM_INFINITY))
def at_once():
    full(1000)
def as_large_as(name):
    full((work / name).stat().st_size)
def before(module, name, act):
    real = getattr(module, name)
    setattr(module, name, lambda *args: (act(*args), real(*args))[1])
def at_a_checkpoint(con, shard):
    con.execute("CHECKPOINT")
    con.execute("SET wal_autocheckpoint = '1KB'")
    as_large_as("atlas.duckdb")
"""
"""A limit on the size of files stands in for a full disk."""

PLACES = {
    "a shard": "before(shards, 'write_shard', lambda *_: at_once())",
    "the working file": "at_once()",
    "load": "before(committer, 'load_shard', lambda con, shard: (con.execute('CHECKPOINT'), at_once()))",
    "checkpoint": "before(committer, 'load_shard', at_a_checkpoint)",
    "publish": "before(committer, 'publish', lambda *_: full(100_000))",
}
"""When the disk is full → how that comes about."""


def asked(tiny: Tiny, target: Path, before: str = "", prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    code = ASKED.format(before=before)
    arguments = [str(tiny.corpus.parent), str(target), str(torch.get_num_threads())]
    if prefix:
        return subprocess.run([*prefix, sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return preloaded.run(code, *arguments)


@pytest.fixture(scope="module")
def swept(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An atlas that still lacks the trace and the papers."""
    return run(tiny.request(tmp_path_factory.mktemp("swept") / "a.duckdb", trace=0, paper=False))


@pytest.fixture(scope="module")
def traced_later(tiny: Tiny, swept: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple]:
    """What it holds once these are brought, with nothing in the way."""
    return sums(run(tiny.request(Path(shutil.copy(swept, tmp_path_factory.mktemp("later"))))))


@pytest.mark.ci_cases(2)
@pytest.mark.thorough
@pytest.mark.parametrize("place", PLACES)
def test_a_disk_full_anywhere_leaves_what_was_there(tiny: Tiny, traced_later: dict, swept: Path, tmp_path: Path, place: str) -> None:
    target = Path(shutil.copy(swept, tmp_path))
    died = asked(tiny, target, FULL + PLACES[place])
    assert died.returncode == 1, died.stderr
    assert died.stderr.splitlines()[-1].startswith(f"no space left on the disk of {tmp_path}. The published atlas is as it was"), died.stderr
    assert target.read_bytes() == swept.read_bytes()
    ask_doctor(target, "--repair")
    assert ask_doctor(target).output.endswith("nothing to mend\n")
    assert sums(run(tiny.request(target))) == traced_later
    assert [p.name for p in tmp_path.iterdir()] == ["a.duckdb"]


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    folder.chmod(0o555)
    try:
        yield
    finally:
        folder.chmod(0o755)


NOT_ALMIGHTY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""Root may write anywhere; this is what it must not."""


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("place", ["new", "of the atlas", "of the work"])
def test_a_folder_that_may_not_be_written_is_named(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path], tmp_path: Path, place: str) -> None:
    target = tmp_path / "a.duckdb" if place == "new" else interrupted("log")
    with read_only(committer.work_folder(target) if place == "of the work" else target.parent):
        refused = asked(tiny, target, prefix=NOT_ALMIGHTY)
    assert refused.returncode == 1, refused.stderr
    assert refused.stderr.splitlines()[-1].startswith(f"no permission to write {target} or the folder {target}.work beside it"), refused.stderr
    assert not target.exists()
    assert sums(run(tiny.request(target))) == expected


def set_clock(monkeypatch: pytest.MonkeyPatch, by: Iterator[timedelta]) -> None:
    """Let the ingest see a time of day that is wrong by the next of these whenever it looks."""

    class Moved(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + next(by)

    for module in (register, load):
        monkeypatch.setattr(module, "datetime", Moved)


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_is_set_between_interruption_and_resume_changes_nothing_but_times(
    tiny: Tiny, expected: dict, interrupted: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    target, by = interrupted("log"), timedelta(days=days)
    set_clock(monkeypatch, repeat(by))
    assert sums(run(tiny.request(target))) == expected
    no_run_ends_before_it_began(target)
    then = (datetime.now(UTC) + by).timestamp()
    os.utime(target, (then, then))
    assert age(latest(str(target)).published_at, datetime.now(UTC)) == ("1 day" if days < 0 else "less than a minute")
    assert ask_doctor(target).output.endswith("nothing to mend\n")


@pytest.mark.thorough
def test_a_clock_that_goes_backwards_all_the_while_changes_nothing_but_times(
    tiny: Tiny, expected: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.duckdb"
    set_clock(monkeypatch, (timedelta(hours=-i) for i in count()))
    assert sums(run(tiny.request(target))) == expected
    no_run_ends_before_it_began(target)
    with atlas.open(target) as a:
        taken = [line for line in inventory(a) if " on cpu (" in line]
    assert len(taken) == 3
    assert not any(" in -" in line for line in taken), taken


def no_run_ends_before_it_began(target: Path) -> None:
    """Nor before the last of its shards was loaded."""
    with closing(open_reader(target)) as con:
        kinds = ["weights", "sweep", "trace", "control_token", "next_token_rank", "removal", "value_cluster"]
        assert con.execute("SELECT kind FROM run ORDER BY run_id").fetchall() == [(kind,) for kind in kinds]
        assert con.execute("FROM run WHERE finished_at IS NULL OR finished_at < started_at").fetchall() == []
        assert con.execute("FROM shard JOIN run USING (run_id) WHERE committed_at > finished_at").fetchall() == []


@pytest.mark.thorough
def test_when_a_snapshot_is_due_is_not_asked_of_the_clock(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose hours go by between two shards, forwards and then backwards: there is one publication, at the end."""
    hours = iter([*range(0, 1000, 100), *range(1000, -1000, -100)])
    published = []
    publish = committer.publish
    monkeypatch.setattr(committer.time, "time", lambda: next(hours) * 3600.0)
    monkeypatch.setattr(committer, "publish", lambda *args: published.append(publish(*args)))
    set_clock(monkeypatch, repeat(timedelta(days=365)))
    run(tiny.request(tmp_path / "a.duckdb", paper=False, trace=0))
    assert len(published) == 1

"""A catalogue that goes away in the middle: nothing stays of what was being written, and the ingest waits for it and goes on."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ingest.request import Request
from ingest.store.lake import retry, store
from ingest.store.lake.store import LakeStore, lock_lake, whoami
from schema.errors import AtlasError, Locked
from schema.open.lake import catalogue, read_lake
from tests.crash.conftest import ROOT
from tests.exact.tiny import run
from tests.lake.conftest import contents
from tests.lake.servers import Servers
from tests.waiting import HANG_S, wait_until

pytestmark = pytest.mark.long

WRITER = """
import sys
from pathlib import Path
import duckdb
from ingest.store.lake.store import opened_lake
try:
    with opened_lake(Path(sys.argv[1])) as store, store.transaction():
        store.con.execute("INSERT INTO value_cluster (space, layer, neuron, cluster) VALUES ('value', 0, 0, 9)")
        print("begun", flush=True)
        sys.stdin.readline()
        store.con.execute("SELECT count(*) FROM value_cluster").fetchall()
except duckdb.Error as error:
    print("refused:", error)
"""


def test_a_transaction_whose_catalogue_is_restarted_is_refused_and_leaves_nothing(request_lake: Callable[..., Request], file: Path, servers: Servers) -> None:
    request = request_lake()
    run(request)
    command = [sys.executable, "-c", WRITER, str(request.target)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "begun\n"
        servers.restart()
        said, complaints = writer.communicate("\n", timeout=60)
    assert (writer.returncode, said.partition(":")[0]) == (0, "refused"), said + complaints
    assert contents(run(request)) == contents(file)


class Lost:
    """Stands in for entering a file, in the middle of a transaction: at some of the calls something happens first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, before: dict[int, Callable[[], object]]) -> None:
        self.real, self.before, self.n_calls = LakeStore.enter, before, 0
        monkeypatch.setattr(LakeStore, "enter", lambda store, *of: self.enter(store, *of))
        monkeypatch.setattr(retry, "WAITS", (0.1, 0.2, 0.3))

    def enter(self, store: LakeStore, *of: Any) -> None:
        self.n_calls += 1
        self.before.get(self.n_calls, lambda: None)()
        self.real(store, *of)


def test_an_ingest_goes_on_by_itself_when_its_catalogue_is_back(
    request_lake: Callable[..., Request], file: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Restarted while the third file is entered and the ninth, of those that are entered anew."""
    lost = Lost(monkeypatch, {3: servers.restart, 9: servers.restart})
    assert contents(run(request_lake())) == contents(file)
    assert lost.n_calls > 9
    said = capsys.readouterr().err
    assert said.count("the lake stopped answering: ") == 2
    assert "What was loaded is kept; trying again in 0 s" in " ".join(said.split())


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (duckdb.OutOfMemoryException("could not allocate"), "out of memory: could not allocate"),
        (duckdb.IOException("No space left on device"), "no space left on the disk"),
        (Locked("the lake of a.lake is being written by elsewhere PID 1."), "is being written by elsewhere PID 1"),
        (AtlasError("layer 3: NaN"), "^layer 3: NaN$"),
    ],
)
def test_what_another_attempt_would_not_help_is_said_at_once(
    request_lake: Callable[..., Request], monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail() -> None:
        raise error

    lost = Lost(monkeypatch, {3: fail})
    with pytest.raises(AtlasError, match=said):
        run(request_lake())
    assert lost.n_calls == 3


def test_a_lock_of_its_own_dead_session_is_waited_for(request_lake: Callable[..., Request], file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL may not know yet that a connection is gone."""

    def fail() -> None:
        raise Locked(f"the lake of a.lake is being written by {whoami()}. Wait for it, or stop it.")

    Lost(monkeypatch, {3: fail})
    assert contents(run(request_lake())) == contents(file)


def test_an_ingest_gives_up_in_the_end_and_keeps_what_it_has(
    request_lake: Callable[..., Request], file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise duckdb.IOException("the storage is away\nfor long")

    request = request_lake()
    with monkeypatch.context() as patched:
        lost = Lost(patched, dict.fromkeys(range(3, 20), fail))
        with pytest.raises(AtlasError, match="the storage is away. .* what was loaded is kept"):
            run(request)
    assert lost.n_calls == 6, "the first attempt, and one after each wait"
    assert capsys.readouterr().err.count("stopped answering: the storage is away for long. What") == 3
    assert contents(run(request)) == contents(file)


def test_a_lock_whose_session_is_just_ending_is_waited_for_and_one_that_stays_is_refused(
    request_lake: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run(request_lake())
    lake, waiting = read_lake(path), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with lock_lake(lake, path), pytest.raises(Locked, match="is being written by .* PID"), lock_lake(lake, path):
        pass

    def is_taken() -> bool:
        with lock_lake(lake, path):
            return True

    monkeypatch.setattr(store, "PATIENCE", "60s")
    with ThreadPoolExecutor(1) as pool, catalogue(lake) as looking:
        with lock_lake(lake, path):
            following = pool.submit(is_taken)
            wait_until(lambda: looking.execute(waiting).fetchall() == [(1,)], "the next one waits for the lock")
        assert following.result(HANG_S)

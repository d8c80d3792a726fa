"""A model process that hangs is ended, and another answers; one that is busy is left alone."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import atlas
from atlas.live import asking
from atlas.live.asking import ModelProcessHung, ask_once
from ingest.live_cli import end_process
from schema.live import socket_path
from schema.live_peer import process_at
from tests.live.conftest import PROMPT, World, kept, live_process, private_sockets
from tests.waiting import wait_until

LISTENER = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True); {}"


@pytest.fixture
def sockets() -> Iterator[Path]:
    with private_sockets() as folder:
        yield folder


@contextmanager
def listening(path: Path, then: str, command: tuple[str, ...] = ("atlas", "live")) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the socket of an atlas, which does something else than its command says."""
    with subprocess.Popen([sys.executable, "-c", LISTENER.format(then), str(path), *command], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def ask(path: Path) -> None:
    ask_once(path, "trace", {"text": "x", "weights_sha256": ""}, lambda _: None, "visitor")


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_process_that_is_stopped_or_only_waits_is_ended(sockets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stopped: bool) -> None:
    monkeypatch.setattr(asking, "WORD", 0.3)
    with listening(socket_path(tmp_path / "a.duckdb"), "time.sleep(1000)") as process:
        if is_stopped:
            process.send_signal(signal.SIGSTOP)
        wait_until(lambda: (process_at(process.pid) or "?")[0] == ("T" if is_stopped else "S"), "it waits")
        with pytest.raises(ModelProcessHung, match="hung and was ended; ask again to start another"):
            ask(tmp_path / "a.duckdb")
        assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("then", "command"), [("any(False for _ in iter(int, 1))", ("atlas", "live")), ("time.sleep(1000)", ("ssh", "-L"))], ids=["busy", "another"]
)
def test_a_process_that_is_busy_or_no_model_process_is_left_alone(
    sockets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(asking, "WORD", 0.3)
    monkeypatch.setattr("schema.live_peer.WORD", 0.3)
    monkeypatch.setattr("atlas.live.process.ANSWER", 0.5)
    with listening(socket_path(tmp_path / "a.duckdb"), then, command) as process:
        with pytest.raises(atlas.AtlasError, match=r"ended before it answered \(timed out\)"):
            ask(tmp_path / "a.duckdb")
        assert process.poll() is None


def test_the_number_of_a_process_that_has_ended_is_nobody() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = process_at(process.pid)
        assert found is not None
        process.kill()
    assert not found[1].is_hung()
    found[1].end()


@pytest.mark.thorough
def test_another_process_answers_in_place_of_one_that_is_stopped(world: World, sockets: Path) -> None:
    kept(world, sockets)
    said: list[dict] = []
    with live_process(world) as process:
        process.send_signal(signal.SIGSTOP)
        with atlas.open(world.atlas) as a:
            assert a.live().trace(PROMPT, progress=said.append).positions.height > 5
        assert process.wait() == -signal.SIGKILL
        assert end_process(world.atlas)
    assert {"stage": "the model process hung and was ended; another is started"} in said


@pytest.mark.thorough
def test_stop_ends_a_process_that_is_stopped(world: World, sockets: Path) -> None:
    with live_process(world) as process:
        process.send_signal(signal.SIGSTOP)
        assert end_process(world.atlas)
        assert process.wait() == -signal.SIGKILL
        assert not end_process(world.atlas)

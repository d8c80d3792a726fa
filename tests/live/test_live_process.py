"""The model process under attack and accident: nobody else gets in, nothing leaks, and the next request is answered."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import atlas
from atlas.cli.main import run
from atlas.live.asking import ask_process
from atlas.live.process import has_owner, start_model_process
from ingest.live import server
from ingest.live.server import claim_socket
from ingest.live.tcp import new_token
from ingest.live_cli import live
from schema.errors import AtlasError
from schema.live import MOST_BODY, TAKEN, UnixConnection, private_folder, socket_path
from tests.exact.tiny import make
from tests.live.conftest import PROMPT, STARTED, World, kept, live_process, private_sockets, wait_until_answering
from tests.waiting import has_ended, wait_until


@pytest.fixture
def sockets() -> Iterator[Path]:
    with private_sockets() as folder:
        yield folder


def post(world: World, body: bytes, content_type: str = "application/json", path: str = "/trace") -> tuple[int, dict]:
    with closing(UnixConnection(socket_path(world.atlas), STARTED)) as connection:
        connection.request("POST", path, body, {"Content-Type": content_type})
        response = connection.getresponse()
        return response.status, json.loads(response.readline() or b"{}")


def works(world: World) -> bool:
    with atlas.open(world.atlas) as a:
        return a.live().trace(PROMPT).positions.height > 5


REFUSED = {
    b"": (400, "requests must be JSON, and this is not"),
    b"not json": (400, "requests must be JSON, and this is not"),
    b"\xff\xfe": (400, "requests must be JSON in UTF-8"),
    b"[]": (400, "the request: [] was given; it must be a table with text, weights_sha256, arms, "),
    b'{"text": "x"}': (400, "the request: weights_sha256 is missing: SHA-256 of the weights"),
    b'{"text": 3, "weights_sha256": ""}': (400, "text is 3; it must be a text"),
    b'{"text": "x", "weights_sha256": 3}': (400, "weights_sha256 is 3; it must be a text"),
    b'{"text": "x", "weights_sha256": "", "is_narrow": 1}': (400, "is_narrow is 1; it must be true or false"),
    b'{"text": "x", "weights_sha256": "", "is_narrow": true}': (400, "is_narrow may be true only if apart is given"),
    b'{"text": "x", "weights_sha256": "", "apart": -1025}': (400, "apart is -1025; it must be at least -1,024 and at most 1,023 (index of the token"),
    b'{"text": "x", "weights_sha256": "", "arms": 3}': (400, "arms must be a list of arms, each a list of interventions, not 3"),
    b'{"text": "x", "weights_sha256": "", "path": "/etc/passwd"}': (400, 'the request: "path" is unknown; there are text, weights_sha256, arms, '),
    b'{"text": "x", "weights_sha256": "", "arms": [[]' + b", []" * 64 + b"]}": (400, "65 arms were given; at most 64"),
    b'{"text": "x", "weights_sha256": "", "n_new": 257}': (400, "n_new is 257; it must be at least 0 and at most 256"),
    b'{"text": "x", "weights_sha256": "", "n_new": -1}': (400, "n_new is -1"),
    b'{"text": "x", "weights_sha256": "", "seed": 0.5}': (400, "seed is 0.5"),
    b'{"text": "x", "weights_sha256": "", "n_new": 256, "arms": [[]' + b", []" * 20 + b"]}": (400, "new tokens times (1 + arms) may be at most 4,096"),
    b"[" * 5000: (400, "requests are nested deeper than 8"),
    b'{"text": "' + b"x" * MOST_BODY + b'"}': (413, "a request has at most 262,144 bytes"),
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: repr(body[:30]))
def test_bodies_that_are_no_request(process: World, body: bytes) -> None:
    status, said = post(process, body)
    assert (status, REFUSED[body][1] in said["message"]) == (REFUSED[body][0], True), said
    assert "\n" not in said["message"]


def test_other_content_types_methods_and_paths(process: World) -> None:
    assert post(process, b"{}", "text/plain")[0] == 400
    with closing(UnixConnection(socket_path(process.atlas), STARTED)) as connection:
        connection.request("GET", "/trace")
        assert connection.getresponse().status == 405
    with closing(UnixConnection(socket_path(process.atlas), STARTED)) as connection:
        connection.request("GET", "/../../etc/passwd")
        assert connection.getresponse().status == 404


@pytest.mark.thorough
def test_what_is_refused_before_it_was_read_says_why(process: World) -> None:
    with pytest.raises(AtlasError, match="a request has at most 262,144 bytes"):
        ask_process(process.atlas, "trace", {"text": "x" * (64 << 20), "weights_sha256": ""}, lambda _: None, "visitor")


def test_a_request_that_is_sent_slowly_is_read_before_it_is_refused(process: World) -> None:
    with closing(UnixConnection(socket_path(process.atlas), STARTED)) as connection:
        connection.putrequest("POST", "/trace")
        connection.putheader("Content-Type", "text/plain")
        connection.putheader("Content-Length", "2")
        connection.endheaders()
        time.sleep(0.5)
        connection.send(b"{}")
        assert connection.getresponse().status == 400


@pytest.mark.thorough
def test_other_weights_are_refused(process: World) -> None:
    with pytest.raises(AtlasError, match="the atlas has another model than when its model process was started"):
        ask_process(process.atlas, "trace", {"text": "x", "weights_sha256": "0" * 64}, lambda _: None, "visitor")


@pytest.mark.thorough
def test_whoever_goes_away_ends_their_request(process: World) -> None:
    class Gone(Exception):
        pass

    def leave(_: object) -> None:
        raise Gone

    with atlas.open(process.atlas) as a:
        for _ in range(5):
            with pytest.raises(Gone):
                a.live().trace(PROMPT, progress=leave)
    assert works(process)


@pytest.mark.thorough
def test_many_at_once_are_answered_or_told_to_wait(process: World) -> None:
    """One is served and eight wait; of one visitor, one waits."""
    said: list[str] = []
    with atlas.open(process.atlas) as a:
        sha256 = a.sql("SELECT weights_sha256 FROM model").item()

    def ask(visitor: str) -> None:
        try:
            tables = ask_process(process.atlas, "trace", {"text": PROMPT, "weights_sha256": sha256}, lambda _: None, visitor)
            said.append("answered" if tables["trace"].num_rows > 5 else "short")
        except AtlasError as error:
            said.append(str(error))

    threads = [threading.Thread(target=ask, args=(str(i),)) for i in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Counter(said)
    assert found["answered"] >= 9
    assert set(found) <= {"answered", "8 requests are in line, and no more can wait: ask again in a moment"}
    assert found.total() == 50
    assert works(process)


@pytest.mark.thorough
def test_it_is_started_on_demand_and_starts_again_after_a_kill(world: World, sockets: Path) -> None:
    kept(world, sockets)
    assert works(world)
    folder = private_folder()
    assert (folder.stat().st_mode & 0o777, socket_path(world.atlas).stat().st_mode & 0o777) == (0o700, 0o600)
    pids = [kill_process(world)]
    for _ in range(3):
        killer = threading.Timer(0.3, lambda: pids.append(kill_process(world)))
        started = threading.Thread(target=killer.start)
        started.start()
        try:
            with atlas.open(world.atlas) as a:
                a.live().trace(PROMPT)
        except AtlasError as error:
            assert "ended before it answered" in str(error) or "did not start" in str(error)  # noqa: PT017
        killer.join()
    assert works(world)
    kill_process(world)
    assert len(set(pids)) > 1


def kill_process(world: World) -> int:
    """SIGKILL to whoever holds the socket."""
    import socket
    import struct

    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(socket_path(world.atlas)))
            pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    except OSError:
        return 0
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: has_ended(pid), "what was killed ends")
    return pid


@pytest.mark.long
def test_a_model_that_is_not_found_is_one_line_and_ends_the_process(world: World, sockets: Path) -> None:
    with atlas.open(world.atlas) as a, pytest.raises(AtlasError, match=r"model tiny-llama was not found; start `atlas live` with --model") as caught:
        a.live().trace("x")
    assert "\n" not in str(caught.value)
    wait_until(lambda: not socket_path(world.atlas).exists(), "the process ends, and takes its socket along")
    with live_process(world):
        assert works(world)


@pytest.mark.thorough
def test_a_model_of_other_weights_is_refused(world: World, sockets: Path, tmp_path: Path) -> None:
    other = World(make(tmp_path, "gpt2"), world.atlas)
    told = r"the weights of .* have SHA-256 .*; the atlas was made from tiny-llama with"
    with live_process(other), atlas.open(world.atlas) as a, pytest.raises(AtlasError, match=told):
        a.live().trace("x")


@pytest.mark.thorough
def test_one_process_an_atlas_and_stop_ends_it(world: World, sockets: Path) -> None:
    command = [sys.executable, "-c", "from atlas.cli import main; main()", "live", str(world.atlas)]
    with live_process(world) as process:
        second = subprocess.run(command, capture_output=True, text=True)
        assert (second.returncode, "another process answers for" in second.stderr) == (TAKEN, True)
        assert works(world)
        assert "ended the process" in subprocess.run([*command, "--stop"], capture_output=True, text=True).stderr
        process.wait(STARTED)
    assert not socket_path(world.atlas).exists()
    assert "no process answers" in subprocess.run([*command, "--stop"], capture_output=True, text=True).stderr


def test_the_socket_is_owned_while_its_lock_is_held(tmp_path: Path) -> None:
    target = tmp_path / "a.sock"
    assert not has_owner(target)
    with target.with_suffix(".lock").open("w") as lock:
        assert not has_owner(target)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert has_owner(target)
    assert not has_owner(target)


def test_stop_says_where_there_is_no_process_to_end(tiny_path: Path, sockets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["live", str(tiny_path), "--stop"], False) == 0
    assert capsys.readouterr().err == f"no process answers for {tiny_path}\n"


@pytest.mark.parametrize(
    ("device", "said"),
    [("tpu", "is unknown; give auto, cpu, cuda, cuda:N or spread"), ("nope", "is unknown"), ("cuda:99", r"was asked for, but torch .* sees \d+ GPUs?")],
)
def test_a_device_that_is_not_there_is_refused_before_anything_is_answered(tiny_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, said: str) -> None:
    served: list[Path] = []
    monkeypatch.setattr(server, "serve", lambda path, *_: served.append(path))
    ended = CliRunner().invoke(live, [str(tiny_path), "--device", device])
    assert isinstance(ended.exception, AtlasError)
    assert re.search(f"device '{device}' {said}", str(ended.exception))
    assert (served, ended.output) == ([], "")


def test_it_ends_when_nobody_asks(world: World, sockets: Path) -> None:
    with live_process(world, "--idle", "0.01") as process:
        assert process.wait(STARTED) == 0
    assert not socket_path(world.atlas).exists()


@pytest.mark.thorough
def test_what_a_killed_process_left_is_taken_over(world: World, sockets: Path) -> None:
    with live_process(world) as process:
        process.kill()
        process.wait()
        assert socket_path(world.atlas).exists()
    with live_process(world):
        wait_until_answering(world.atlas)
        assert works(world)


def test_a_folder_that_others_can_enter_is_refused(world: World, sockets: Path) -> None:
    folder = private_folder()
    for mode in (0o755, 0o750, 0o710, 0o701, 0o702):
        folder.chmod(mode)
        with pytest.raises(AtlasError, match="is no folder that you alone can enter"):
            socket_path(world.atlas)
    folder.rmdir()
    elsewhere = sockets / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)
    with pytest.raises(AtlasError, match="is no folder that you alone can enter"):
        socket_path(world.atlas)


def test_links_in_the_folder_are_not_followed(world: World, sockets: Path) -> None:
    """Of the lock, what is said and the token: what they lead to stays as it is."""
    target, precious = socket_path(world.atlas), sockets / "precious"
    precious.write_text("mine")
    for suffix in (".lock", ".log", ".token"):
        target.with_suffix(suffix).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"), claim_socket(target):
        pass
    with pytest.raises(AtlasError, match="with its output going to .*symbolic links"):
        start_model_process(world.atlas, target.with_suffix(".log"))
    token, path = new_token(world.atlas)
    assert (path.is_symlink(), path.read_text(), precious.read_text()) == (False, token, "mine")


def test_a_path_that_no_socket_can_have_is_said(world: World, sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = sockets / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with pytest.raises(AtlasError, match="longer than a socket's path may be"):
        socket_path(world.atlas)

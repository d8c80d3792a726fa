"""A request that runs is ended with whoever asked for it: each step of the process is made to take long, so that what goes on would show."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import atlas
from schema.live import UnixConnection, socket_path
from tests.live.conftest import STARTED, World, live_process, private_sockets
from tests.waiting import wait_until

STEP, N_NEW = 0.3, 60
"""Seconds of a step at least, and tokens, each a step: a request that is not ended takes 18 seconds, and says so many stages."""

SLOW = f"""
import os, time
from ingest.live.jobs import Ticket
told = Ticket.tell
def slowly(*args, **more):
    with open(os.environ["STEPS"], "a") as file:
        file.write("step\\n")
    time.sleep({STEP})
    told(*args, **more)
Ticket.tell = slowly
"""

CLIENT = f"""
import sys
import atlas
with atlas.open(sys.argv[1]) as a:
    a.live().trace("x", n_new={N_NEW}, progress=lambda said: print(said.get("stage"), flush=True))
"""


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A line for each step that the process has begun."""
    return tmp_path_factory.mktemp("steps") / "steps"


@pytest.fixture(scope="module")
def slow(world: World, steps: Path) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("STEPS", str(steps))
        with private_sockets(), live_process(world, before=SLOW):
            yield world


def in_line(world: World) -> int:
    with closing(UnixConnection(socket_path(world.atlas), STARTED)) as connection:
        connection.request("GET", "/")
        return json.loads(connection.getresponse().read())["in_line"]


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL], ids=["who asked stops it", "who asked vanishes"])
def test_a_request_that_runs_ends_at_its_next_step(slow: World, steps: Path, stop: signal.Signals) -> None:
    steps.unlink(missing_ok=True)
    with subprocess.Popen([sys.executable, "-c", CLIENT, str(slow.atlas)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        for said in client.stdout:
            if said.strip() == "generating":
                break
        assert in_line(slow) == 1
        client.send_signal(stop)
        wait_until(lambda: in_line(slow) == 0, "the request leaves the line")
        assert len(steps.read_text().splitlines()) < N_NEW
        _, error = client.communicate()
    assert client.returncode != 0 and (stop is signal.SIGKILL or "KeyboardInterrupt" in error)
    with atlas.open(slow.atlas) as a:
        assert a.live().trace("x").positions.height > 1

"""A request that runs is ended with whoever asked for it: each step of the process is made to take long, so that what goes on would show."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

import atlas
from schema.live import UnixConnection, socket_path
from tests.live.conftest import STARTED, World, live_process, private_sockets

STEP, N_NEW = 0.3, 60
"""Seconds of a step at least, and tokens, each a step: a request that is not ended takes 18 seconds."""

SLOW = f"""
import time
from ingest.live.jobs import Ticket
told = Ticket.tell
def slowly(*args, **more):
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
def slow(world: World) -> Iterator[World]:
    with private_sockets(), live_process(world, before=SLOW):
        # torch and the model are there before anything is timed
        with atlas.open(world.atlas) as a:
            a.live().trace("x")
        yield world


def in_line(world: World) -> int:
    with closing(UnixConnection(socket_path(world.atlas), STARTED)) as connection:
        connection.request("GET", "/")
        return json.loads(connection.getresponse().read())["in_line"]


def seconds_until(done: Callable[[], bool]) -> float:
    start = time.monotonic()
    while not done():
        assert time.monotonic() < start + STARTED
        time.sleep(0.05)
    return time.monotonic() - start


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL], ids=["who asked stops it", "who asked vanishes"])
def test_a_request_that_runs_ends_at_its_next_step(slow: World, stop: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", CLIENT, str(slow.atlas)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        for said in client.stdout:
            if said.strip() == "generating":
                break
        assert in_line(slow) == 1
        client.send_signal(stop)
        assert seconds_until(lambda: in_line(slow) == 0) < STEP * N_NEW / 2
        _, error = client.communicate()
    assert client.returncode != 0 and (stop is signal.SIGKILL or "KeyboardInterrupt" in error)
    with atlas.open(slow.atlas) as a:
        assert a.live().trace("x").positions.height > 1

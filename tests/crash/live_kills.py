"""A model process that is killed at random moments, while it starts and while it answers: the next request is answered, and nothing is left or broken.

    python -m tests.crash.live_kills [--kills 200] [--minutes 600] [--clients 3] [--seed 0]

Threads ask all the while, and keep some of the answers. Half of the kills hit a process that another kill has made anew, so that it may be starting.
"""

import gc
import os
import random
import signal
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import click

import atlas
from ingest.live_cli import end_process
from schema.audits import run_audits
from schema.live import private_folder, socket_path
from tests.crash.live_clients import Clients
from tests.crash.soak_figures import usage
from tests.live.conftest import PROMPT, World, kept, private_sockets, processes_of, world_in
from tests.waiting import has_ended, wait_until

REPORTED = 20
"""Kills after which figures are said."""

HANDLES, THREADS = 4, 1
"""How many more the client may have in the end: a lock of a connection that is being closed."""


def live_kills(world: World, kills: int, minutes: float, n_clients: int, seed: int) -> tuple[Counter[str], int, float]:
    """What became of requests, how many kills there were when all were done or the time was over, and the longest that a request after one took, in seconds.

    Raises AssertionError for whatever is left or broken.
    """
    rng = random.Random(seed)
    start = time.monotonic()
    end = start + 60 * minutes
    require_answer(world)
    took, settled = time.monotonic() - start, usage_here()
    longest = 0.0
    with Clients(world.atlas, n_clients, seed, save=0.2) as clients:
        n = 0
        while n < kills and time.monotonic() < end and not clients.failed:
            if n % REPORTED == 0:
                click.echo(
                    f"{n:6} kills, requests {dict(clients.counts)}, handles and threads {usage_here()}, {took:.1f} s from nothing to an answer", err=True
                )
            time.sleep(rng.uniform(0, took))
            kill_one(world, rng)
            n += 1
            if rng.random() < 0.5:
                start = time.monotonic()
                require_answer(world)
                longest = max(longest, time.monotonic() - start)
    require_answer(world)
    require_whole(world, clients.counts["saved"])
    end_process(world.atlas)
    require_nothing_left(world, settled)
    return clients.counts, n, longest


def require_answer(world: World) -> None:
    with atlas.open(world.atlas) as a:
        assert a.live().trace(PROMPT).positions.height > 5


def kill_one(world: World, rng: random.Random) -> None:
    """One of those that there are, as soon as there is one. Its socket takes requests until it is gone, which a busy machine may take a while for."""
    found: list[int] = []
    wait_until(lambda: found.extend(processes_of(world.atlas)) or found, "somebody starts a process", pause=0.01)
    killed = rng.choice(found)
    with suppress(ProcessLookupError):
        os.kill(killed, signal.SIGKILL)
    # its command line is gone before what it has open
    wait_until(lambda: has_ended(killed), "a process that was killed ends", pause=0.01)


def require_whole(world: World, saved: int) -> None:
    with atlas.open(world.atlas) as a:
        broken = [f.audit.name for f in run_audits(a.con) if f.n_rows]
        n = a.sql("SELECT count(*) FROM experiments.experiment").item()
    assert (broken, n) == ([], saved), f"{broken} are broken, and of {saved} that were saved {n} experiments are there"


def require_nothing_left(world: World, settled: tuple[int, int]) -> None:
    wait_until(lambda: not processes_of(world.atlas) and not socket_path(world.atlas).exists(), "the process ends, and takes its socket along")
    left = sorted(path.suffix for path in private_folder().iterdir())
    assert left == [".lock", ".log"], f"in the folder of sockets there are {left}"
    beside = sorted(path.name for path in world.atlas.parent.iterdir() if path.name.startswith((".", f"{world.atlas.stem}.")))
    assert {*beside} <= {world.atlas.name, f"{world.atlas.stem}.experiments.duckdb", f".{world.atlas.stem}.experiments.duckdb.lock"}, beside
    gc.collect()
    handles, threads = usage_here()
    assert handles <= settled[0] + HANDLES and threads <= settled[1] + THREADS, f"handles and threads were {settled}, and are {(handles, threads)}"


def usage_here() -> tuple[int, int]:
    """Handles and threads of this process."""
    return usage(os.getpid()).handles, len(list(Path("/proc/self/task").iterdir()))


@click.command()
@click.option("--kills", default=200, show_default=True)
@click.option("--minutes", default=600.0, show_default=True)
@click.option("--clients", default=3, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(kills: int, minutes: float, clients: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder, private_sockets() as sockets:
        world = world_in(Path(folder))
        kept(world, sockets)
        before = usage_here()
        start = time.monotonic()
        found, n_kills, longest = live_kills(world, kills, minutes, clients, seed)
        passed = (time.monotonic() - start) / 60
        after = usage_here()
    of = ", ".join(f"{name} {n}" for name, n in sorted(found.items()))
    click.echo(
        f"{n_kills} kills in {passed:.1f} minutes; requests: {of}; the longest after a kill took {longest:.1f} s; "
        f"handles and threads of who asks {before} before, {after} after; "
        "the atlas and its experiments are whole, no process and no socket is left"
    )


if __name__ == "__main__":
    main()

"""Kill an ingest at random moments, again and again; what it ends with must be what one undisturbed makes, to the bit.

    python -m tests.crash.kill_loop [--kills 200] [--minutes 600] [--seed 0] [--workers 2] [--lake]

Every process is forked from one that has loaded the libraries and run nothing. Half of the ingests publish after every shard. A reader opens
whatever is published, all the while, and looks for a shard that is not whole. There is no map: its shards go the way of the others, and most of
each process's time would be its compiling. Of several workers (Ray), every other kill hits one of them, and the ingest must go on by itself.
With --lake the atlas is a lake, a new one after each ingest that finished, and every fourth kill restarts its PostgreSQL instead, after which
the ingest must go on by itself.

It ends after so many kills, or when its time is over and there was one; then one ingest more is left alone, to be compared.
"""

import json
import mmap
import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import duckdb
import torch
from rich.console import Console
from rich.progress import Progress, TaskID

from ingest.passes import passes
from ingest.request import Request
from ingest.run import ingest
from ingest.store import committer
from ingest.workers import ray_pool
from schema.errors import AtlasError, Unreachable
from schema.open.lake import is_lake
from schema.open.store import open_reader
from tests.exact.published import Published
from tests.exact.tiny import CIRCUITS, make, tiny_request

if TYPE_CHECKING:
    from tests.lake.servers import Servers

PHASES = ["start", *passes(), "publish", "end"]

READ = {"token_vectors": True, "words": "white-space", "probe": ("index", "next_token"), "probe_layers": "0"}
"""Options that ask for word vectors, words and probes. Keys are asked for of files alone, since a lake has none."""

WHOLE = """
SELECT count(*) FROM shard AS s JOIN run AS r USING (run_id), (SELECT count(*) AS n FROM trace) AS t
WHERE r.kind = 'trace' GROUP BY t.n HAVING sum((s.n_rows ->> 'trace')::INT) <> t.n
"""
"""Rows if the published manifest promises other traced positions than there are."""


class Phases(Progress):
    """A progress bar that shows nothing: it writes down, where the killer sees it, what the ingest is doing."""

    def __init__(self, shared: mmap.mmap) -> None:
        super().__init__(console=Console(quiet=True), disable=True)
        self.shared = shared

    def add_task(self, description: str, *args: Any, **fields: Any) -> TaskID:
        # loading and reading come before what is killed
        if description in PHASES:
            self.shared[0] = PHASES.index(description)
        return super().add_task(description, *args, **fields)


def forked(action: Callable[[], object], log: Path) -> int:
    """PID of a process that does something and ends; what it raises goes into the log."""
    pid = os.fork()
    if pid:
        return pid
    try:
        action()
        os._exit(0)
    except BaseException as error:
        log.write_text("".join(traceback.format_exception(error)))
        os._exit(1)


def wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def until(pid: int, happened: Callable[[], bool], pause: float = 0.001) -> tuple[int, int]:
    """What waitpid says of a process that has ended, (0, 0) if something happened before that. pause: seconds between two looks."""
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0) and not happened():
        time.sleep(pause)
    return ended


def record(asked: Callable[..., Request], target: Path, shared: mmap.mmap, eager: bool, workers: int) -> None:
    if eager:
        committer.PUBLISH_SHARE = 0
    # sums depend on the number of threads in their last bit
    ray_pool.threads_each = lambda _: 1
    torch.set_num_threads(1)
    shared[0] = 0
    ingest(asked(target, workers=workers), Phases(shared))
    shared[0] = len(PHASES) - 1


@dataclass
class Lakes:
    """Where the loop's lakes are; each has a number."""

    servers: "Servers"
    number: int = 0

    def place(self) -> dict[str, object]:
        """That of a new one, as a request takes it."""
        self.number += 1
        name = f"kill{self.number}"
        return {"lake": self.servers.catalogue(name), "data": self.servers.data(name)}


@contextmanager
def lakes_for(folder: Path, wanted: bool) -> Iterator[Lakes | None]:
    if not wanted:
        yield None
        return
    # imported here: a file needs no server
    from tests.lake.servers import serving

    with serving(folder) as servers:
        os.environ |= servers.environment
        yield Lakes(servers)


def comparable(target: Path) -> dict[str, tuple]:
    """Checksums of every table but the manifest: it counts a shard's candidates, which are more where the worker did not know the others' triggers."""
    return {name: found for name, found in Published(target).checksums().items() if name != "shard"}


def keep_checksums(target: Path, file: Path) -> None:
    file.write_text(json.dumps(comparable(target)))


def read_on(folder: Path, reads: Path) -> None:
    """Open what is published, until the killer is gone, and write down a line for each read: nothing, or why a lake refused it.

    Raises if a shard is not whole, and where a file that is there is no atlas.
    """
    killer = os.getppid()
    while os.getppid() == killer:
        start = time.monotonic()
        for target in [*folder.glob("*.duckdb"), *folder.glob("*.lake")]:
            try:
                with closing(open_reader(target)) as con:
                    broken, refused = con.execute(WHOLE).fetchall(), ""
            except (AtlasError, duckdb.Error) as error:
                # between the listing and the opening it may have gone; a lake may hold nothing yet, or its server may be down
                if "no such file" in str(error) or (is_lake(target) and (isinstance(error, Unreachable) or "published yet" in str(error))):
                    continue
                if not is_lake(target):
                    raise
                broken, refused = [], " ".join(str(error).split())
            if broken:
                raise AssertionError(f"{target}: a shard is not whole: {broken}")
            with reads.open("a") as file:
                file.write(refused + "\n")
        # half of a processor is left to the ingest
        time.sleep(0.01 + time.monotonic() - start)


def actors(pid: int) -> list[int]:
    """PIDs of the workers among a process's descendants."""
    found, parents = [], {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            rest = stat.read_text().rpartition(")")[2]
            parents[int(stat.parent.name)] = int(rest.split()[1])
            if (stat.parent / "cmdline").read_bytes().startswith(b"ray::Remote"):
                found.append(int(stat.parent.name))

    def descends(child: int) -> bool:
        return child == pid or (child in parents and descends(parents[child]))

    return [actor for actor in found if descends(actor)]


def keys_of(target: Path) -> Path:
    return target.with_suffix(".keys")


def taken_away(target: Path) -> None:
    target.unlink()
    shutil.rmtree(keys_of(target), ignore_errors=True)


def checksums(target: Path, folder: Path) -> dict:
    file = folder / "sums.json"
    done = wait(forked(lambda: keep_checksums(target, file), folder / "sums.log"))
    if done:
        raise AssertionError(f"{target} does not read back: {(folder / 'sums.log').read_text()}")
    found: dict = json.loads(file.read_text())
    return found


def kill_loop(folder: Path, kills: int, minutes: float, seed: int, workers: int, lakes: Lakes | None) -> Counter:
    """Returns how many kills fell into each phase, and under `finished` how many ingests came to their end. Raises AssertionError where one differs."""
    rng, shared, log = random.Random(seed), mmap.mmap(-1, 1), folder / "ingest.log"
    made = folder / "tiny"
    made.mkdir()
    # in another process: this one must start no threads, which a fork would not bring along
    if wait(forked(lambda: make(made, "opt"), log)):
        raise AssertionError(log.read_text())
    asked = partial(tiny_request, made / "tiny-opt", made / "corpus.jsonl", **CIRCUITS, **READ, keys=lakes is None)
    disturbed = folder / "disturbed"
    disturbed.mkdir()
    target, found = disturbed / ("atlas.lake" if lakes else "atlas.duckdb"), Counter()
    begun = partial(asked, **(lakes.place() if lakes else {}))
    # the second for the time that it takes
    for request, made_at, n in ((asked, folder / "undisturbed1.duckdb", 1), (begun, target, workers)):
        start = time.monotonic()
        if wait(forked(lambda request=request, made_at=made_at, n=n: record(request, made_at, shared, False, n), log)):
            raise AssertionError(log.read_text())
        took = time.monotonic() - start
    expected = checksums(folder / "undisturbed1.duckdb", folder)
    taken_away(target)
    begun = partial(asked, **(lakes.place() if lakes else {}))
    reads = folder / "reads.log"
    reader = forked(lambda: read_on(disturbed, reads), folder / "reader.log")
    # halved with each ingest that came to its end before it was hit: they are faster once the machine has less to do
    span, end = 1.5, time.monotonic() + 60 * minutes
    while True:
        n_kills = sum(found[phase] for phase in (*PHASES, "worker", "PostgreSQL"))
        is_hit = n_kills < kills and (time.monotonic() < end or not n_kills)
        # the last is left alone, so that there is always one to compare
        if not is_hit and found["finished"]:
            break
        eager = rng.random() < 0.5
        log.write_text("")
        pid = forked(lambda eager=eager, begun=begun: record(begun, target, shared, eager, workers), log)
        hit_worker = workers > 1 and is_hit and rng.random() < 0.5
        # half of the time passes before there are any
        ended = until(pid, lambda pid=pid: bool(actors(pid)), pause=0.1) if hit_worker else (0, 0)
        moment = time.monotonic() + rng.uniform(0, took * span * (0.3 if hit_worker else 1))
        ended = until(pid, lambda is_hit=is_hit, moment=moment: is_hit and time.monotonic() > moment) if ended == (0, 0) else ended
        if ended == (0, 0) and lakes and n_kills % 4 == 1:
            is_opening = PHASES[shared[0]] == "start"
            lakes.servers.restart()
            found["PostgreSQL"] += 1
            # it may have noticed, and then opens the lake anew; but not if it could not open it at first
            ended = os.waitpid(pid, 0)
            if is_opening and os.waitstatus_to_exitcode(ended[1]) and "Unreachable" in log.read_text():
                continue
        if ended == (0, 0) and hit_worker and (alive := actors(pid)):
            os.kill(rng.choice(alive), signal.SIGKILL)
            found["worker"] += 1
            ended = os.waitpid(pid, 0)
        if ended == (0, 0):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            found[PHASES[shared[0]]] += 1
            span = 1.5
            continue
        if os.waitstatus_to_exitcode(ended[1]):
            raise AssertionError(f"an ingest did not go on: {log.read_text()}")
        left = sorted(p.name for p in disturbed.iterdir() if not p.name.startswith(f".{target.name}."))
        if (sums := checksums(target, folder)) != expected or left != [target.name, *([] if lakes else [keys_of(target).name])]:
            differ = [name for name in expected if sums[name] != expected[name]]
            raise AssertionError(f"after {sum(found.values())} kills the atlas differs in {differ}, and the folder holds {left}")
        found["finished"] += 1
        span = 1.5 if sum(found.values()) > n_kills + found["finished"] else span / 2
        taken_away(target)
        begun = partial(asked, **(lakes.place() if lakes else {}))
    if os.waitpid(reader, os.WNOHANG) != (0, 0):
        raise AssertionError((folder / "reader.log").read_text())
    os.kill(reader, signal.SIGKILL)
    os.waitpid(reader, 0)
    read = reads.read_text().splitlines()
    refused = [line for line in read if line]
    if len(refused) > found["PostgreSQL"] or len(refused) == len(read):
        raise AssertionError(f"of {len(read)} reads {len(refused)} were refused, and the catalogue was restarted {found['PostgreSQL']} times: {refused}")
    return found


@click.command()
@click.option("--kills", default=200, show_default=True)
@click.option("--minutes", default=600.0, show_default=True, help="Of killing; what comes before and after is not counted.")
@click.option("--seed", default=0, show_default=True)
@click.option("--workers", default=1, show_default=True)
@click.option("--lake", is_flag=True)
def main(kills: int, minutes: float, seed: int, workers: int, lake: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, lakes_for(Path(folder), lake) as lakes:
        start = time.monotonic()
        found = kill_loop(Path(folder), kills, minutes, seed, workers, lakes)
        took = (time.monotonic() - start) / 60
    finished, n_kills = found.pop("finished", 0), sum(found.values())
    ended = "" if n_kills >= kills else f" of {kills}, and its time was over,"
    of = ", ".join(f"{phase} {n}" for phase, n in found.items())
    click.echo(f"{n_kills} kills{ended} in {took:.1f} minutes ({of}); {finished} ingests finished, each the same to the bit")


if __name__ == "__main__":
    main()

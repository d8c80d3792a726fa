"""Two lakes side by side with what a user keeps, on a disk and on S3: commands of the one are killed by SIGKILL, and every byte of the others is there."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from pyarrow import fs

from atlas.cli.main import run as atlas_command
from ingest.request import Request
from ingest.store.lake import place
from ingest.store.lake.place import MARK, Place
from ingest.store.lake.store import opened_lake
from schema.open.lake import Lake
from tests.exact.published import Published
from tests.exact.tiny import Tiny, run
from tests.lake.servers import Servers
from tests.lake.test_places import World
from tests.preloaded import CONTEXT

NUMBERS = count()
MINE = ("measurements.parquet", "one/main/trigger/measurements.parquet", "two/shards/notes.parquet", "two/mine/deep/notes.txt")


class Places(World):
    """What lies in the folder or prefix in which both lakes have a place."""

    def __init__(self, data: str) -> None:
        self.lake, self.taken = Lake("", data), {}

    @property
    def storage(self) -> tuple:
        system, shards = super().storage
        return system, shards


def act(environment: dict[str, str], what: Request | tuple[str, ...]) -> None:
    """An ingest or a command, in a process of its own."""
    os.environ.update(environment)
    if isinstance(what, tuple):
        atlas_command(list(what), is_debug=False)
    else:
        run(what)


def kill_when(what: Request | tuple[str, ...], reached: Callable[[], bool]) -> bool:
    """Do it, and end it by SIGKILL once it has come so far; whether it had not ended by itself."""
    process = CONTEXT.Process(target=act, args=(dict(os.environ), what))
    process.start()
    try:
        while process.is_alive() and not reached():
            time.sleep(0.005)
    finally:
        process.kill()
        process.join()
    return process.exitcode == -signal.SIGKILL


def act_and_die(environment: dict[str, str], command: tuple[str, ...]) -> None:
    """A command that is ended by SIGKILL when the first of the files that it removes is gone."""

    def removing(system: fs.FileSystem) -> Callable[[str], None]:
        def remove(path: str) -> None:
            system.delete_file(path)
            os.kill(os.getpid(), signal.SIGKILL)

        return remove

    place.file_remover = removing
    act(environment, command)


def kill_at_the_first_removal(*command: str) -> bool:
    """Whether it had come so far."""
    process = CONTEXT.Process(target=act_and_die, args=(dict(os.environ), command))
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL


def checksums(path: Path) -> dict[str, tuple]:
    published = Published(path)
    with closing(published.con):
        return {name: found for name, found in published.checksums().items() if name != "shard"}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["disk", "s3"])
def test_commands_of_one_lake_that_are_killed_leave_every_other_byte(servers: Servers, tiny: Tiny, file: Path, tmp_path: Path, kind: str) -> None:
    name = f"killed{next(NUMBERS)}"
    root = servers.data(name) if kind == "s3" else str(tmp_path / "files")
    one, two = (tiny.request(tmp_path / f"{n}.lake", lake=servers.catalogue(f"{name}{n}"), data=f"{root}/{n}") for n in ("one", "two"))
    run(one)
    places = Places(root)
    # a place that is not empty is refused: what a user keeps within it comes later
    assert kill_when(two, lambda: any(n.startswith("two/") and MARK.fullmatch(n) for n in places.names()))
    places.put(*MINE)
    theirs = {n: data for n, data in places.files().items() if not n.startswith("two/") or n in MINE}
    assert theirs.keys() > set(MINE)

    def own() -> int:
        """Files of the second lake."""
        return sum(n.startswith("two/") for n in places.names())

    def nothing_is_lost() -> None:
        there = places.files()
        assert {n: there.get(n) for n in theirs} == theirs

    for more in (1, 8, 20):
        before = own()
        assert kill_when(two, lambda wanted=before + more: own() >= wanted), "an ingest is killed in its midst"
        nothing_is_lost()
    run(two)
    nothing_is_lost()

    # what a compaction removes is scheduled first; a repair has something to remove
    target = tmp_path / "two.lake"
    before = own()
    is_compaction = kill_when(("compact", str(target), "--keep-hours", "0"), lambda: own() != before)
    nothing_is_lost()
    assert atlas_command(["compact", str(target), "--keep-hours", "0"], is_debug=False) == 0
    nothing_is_lost()
    # more than are removed at once
    left = [f"two/shards/{i:03}-00000-0123456789ab/trigger.parquet" for i in range(4 * place.AT_ONCE)]
    places.put(*left)
    is_repair = kill_at_the_first_removal("doctor", str(target), "--repair")
    nothing_is_lost()
    assert (is_compaction, is_repair) == (True, True), "each is killed in its midst"
    assert 0 < len(set(left) & places.files().keys()) < len(left), "some are gone, and some are left to the next repair"
    assert atlas_command(["doctor", str(target), "--repair"], is_debug=False) in (0, 1)
    nothing_is_lost()
    assert not set(left) & places.files().keys()
    assert checksums(target) == checksums(tmp_path / "one.lake") == checksums(file)
    with opened_lake(target) as store:
        assert isinstance(store.place, Place)

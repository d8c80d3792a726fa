"""The ingests of a soak: those that are killed and go on, and those of one process that never is."""

import mmap
import os
import random
import select
import signal
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.store import committer
from tests.crash.kill_loop import checksums, forked, record, wait
from tests.crash.soak_figures import Usage, usage
from tests.exact.tiny import TEXTS, make, tiny_request, write_corpus

if TYPE_CHECKING:
    from tests.crash.soak_beside import Beside

POLL_S = 0.02


def folder_of(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


class Ingests:
    """Corpora 0, 1, … of one model, each added to an atlas of those before it. Counts kills and snapshots; `most` is the largest usage since it was set."""

    def __init__(self, folder: Path, n_corpora: int, rng: random.Random) -> None:
        self.folder, self.n_corpora, self.rng = folder, n_corpora, rng
        self.made, self.temporary = folder_of(folder, "made"), folder_of(folder, "temporary")
        self.shared = mmap.mmap(-1, 16)
        self.expected: list[dict] = []
        self.took: list[float] = []
        self.kills, self.most = 0, Usage()

    @property
    def snapshots(self) -> int:
        return int.from_bytes(self.shared[8:16])

    def prepare(self, shown: Path) -> None:
        """The model and the corpora; what each ingest must end with, and how long it takes. The atlas of all is the first that is shown."""
        self.undisturbed(self.write)
        for k in range(self.n_corpora):
            start = time.monotonic()
            self.undisturbed(partial(self.ingest, k, shown))
            self.took.append(time.monotonic() - start)
            self.expected.append(checksums(shown, self.folder))

    def undisturbed(self, action: Callable[[], None]) -> None:
        # in another process: this one must start no threads, which a fork would not bring along
        if wait(forked(action, self.folder / "ingest.log")):
            raise AssertionError((self.folder / "ingest.log").read_text())

    def write(self) -> None:
        make(self.made, "opt")
        for k in range(self.n_corpora):
            write_corpus(self.made / f"{k}.jsonl", TEXTS[k:])

    def count(self) -> None:
        """From here on this process counts what it publishes, where all see it, and keeps passing files where they are looked for."""
        publish = committer.publish

        def counted(*args: object) -> None:
            publish(*args)
            self.shared[8:16] = (self.snapshots + 1).to_bytes(8)

        committer.publish = counted
        tempfile.tempdir = str(self.temporary)

    def ingest(self, k: int, target: Path) -> None:
        """A snapshot after every shard."""
        record(partial(tiny_request, self.made / "tiny-opt", self.made / f"{k}.jsonl"), target, self.shared, True, 1)

    def counted(self, k: int, target: Path) -> None:
        self.count()
        self.ingest(k, target)

    def disturbed(self, k: int, target: Path) -> None:
        """Ingest a corpus, killed at random moments until it comes to its end."""
        while True:
            pid = forked(partial(self.counted, k, target), self.folder / "ingest.log")
            deadline = time.monotonic() + self.rng.uniform(0, 1.5 * self.took[k])
            while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
                self.most = self.most.most(usage(pid))
                time.sleep(POLL_S)
            if ended != (0, 0):
                break
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self.kills += 1
        if os.waitstatus_to_exitcode(ended[1]):
            raise AssertionError(f"an ingest did not go on: {(self.folder / 'ingest.log').read_text()}")

    def compare(self, k: int, target: Path) -> None:
        """Raises AssertionError unless the atlas holds what it must after corpus k."""
        found = checksums(target, self.folder)
        if found != self.expected[k]:
            raise AssertionError(f"{target} differs after corpus {k} in {[name for name in found if found[name] != self.expected[k][name]]}")


class Steady:
    """One process that ingests whatever it is asked to, and is never killed."""

    def __init__(self, ingests: Ingests, target: Path, beside: "Beside") -> None:
        self.ingests, self.target, self.beside = ingests, target, beside
        asked, self.ask = os.pipe()
        self.done, done = os.pipe()
        self.pid = beside.start("steady", lambda: self.serve(asked, done))
        os.close(asked)
        os.close(done)

    def serve(self, asked: int, done: int) -> None:
        self.ingests.count()
        os.close(self.ask)
        while k := os.read(asked, 1):
            if k == b"\0":
                self.target.unlink(missing_ok=True)
            self.ingests.ingest(k[0], self.target)
            os.write(done, k)

    def ingest(self, k: int) -> None:
        os.write(self.ask, bytes([k]))
        while not select.select([self.done], [], [], 1)[0]:
            self.beside.check()
        os.read(self.done, 1)
        self.beside.check()

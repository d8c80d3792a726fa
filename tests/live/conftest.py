"""A tiny model, an atlas of it, and its model process, on a socket in a folder of the test's own."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import pytest
import transformers

import atlas
from ingest.model.gguf import DIGESTS, others_sha256
from schema.live import UnixConnection, socket_path
from tests.exact.tiny import D_FFN, Tiny, make, run, tiny_request

PROMPT = "The first of the people of the world"
CHAT_TEMPLATE = "{% for m in messages %}<s>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}<s>{% endif %}"
STARTED = 120.0
"""Seconds that a process may take on a busy machine."""


@dataclass(frozen=True)
class World:
    tiny: Tiny
    atlas: Path


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world_in(tmp_path_factory.mktemp("live"))


def world_in(folder: Path) -> World:
    """The prompt is the whole of its corpus, and every position of it is traced."""
    tiny = make(folder, "llama")
    tiny.tokenizer.chat_template = CHAT_TEMPLATE
    tiny.tokenizer.save_pretrained(tiny.folder)
    corpus = folder / "prompt"
    corpus.mkdir()
    (corpus / "prompt.txt").write_text(PROMPT)
    request = tiny_request(tiny.folder, corpus / "*.txt", folder / "live.duckdb", trace=1000, coefficients=D_FFN, vectors=(), paper=False, context=64)
    return World(tiny, run(request))


def kept(world: World, cache: Path) -> None:
    """Lay the model where one that was dequantised is kept, so that a process finds it by itself."""
    with atlas.open(world.atlas) as a:
        sha256 = a.sql("SELECT weights_sha256 FROM model").item()
    folder = shutil.copytree(world.tiny.folder, cache / "cache" / "activation-atlas" / "weights" / sha256)
    (folder / DIGESTS).write_text(f"{sha256} {others_sha256(folder)} {transformers.__version__}")


def processes_of(target: Path) -> list[int]:
    """Those that were started to answer for an atlas, listening or not; none that have ended."""
    found = []
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"live" in words and os.fsencode(target) in words and state_of(pid) != "Z":
                found.append(pid)
    return found


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def private_sockets() -> Iterator[Path]:
    """Its path is short, as a socket's must be."""
    with TemporaryDirectory(prefix="al-") as folder, sockets_in(Path(folder)):
        yield Path(folder)


@contextmanager
def sockets_in(folder: Path) -> Iterator[None]:
    # without the hub, which is asked again and again where there is no network
    changes = {"XDG_RUNTIME_DIR": str(folder), "XDG_CACHE_HOME": f"{folder}/cache", "HF_HUB_OFFLINE": "1"}
    before = {name: os.environ.get(name) for name in changes}
    os.environ |= changes
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


PROGRAM = "from atlas.cli import main; main()"


@contextmanager
def live_process(world: World, *options: str, before: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A process that was started by hand, once it answers. before: statements that it runs first."""
    command = [sys.executable, "-c", before + PROGRAM, "live", str(world.atlas), "--model", str(world.tiny.folder), *options]
    # a pipe that nobody reads would fill up
    with TemporaryFile() as said:
        process = subprocess.Popen(command, stderr=said)
        try:
            wait_until_answering(world.atlas, process)
            yield process
        finally:
            process.kill()
            process.wait()


def wait_until_answering(atlas: Path, process: subprocess.Popen[bytes] | None = None) -> None:
    end = time.monotonic() + STARTED
    while time.monotonic() < end and (process is None or process.poll() is None):
        with suppress(OSError):
            connection = UnixConnection(socket_path(atlas), 5)
            connection.connect()
            connection.close()
            return
        time.sleep(0.05)
    raise AssertionError(f"the process does not answer: {process and process.poll()}")


@dataclass
class Shared:
    """A process for the tests that do not end it, of an atlas of its own: what kills those of the world's leaves it alone."""

    world: World
    sockets: Path
    running: ExitStack
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Where none has been started, or the last one has ended because nobody asked."""
        if self.process is None or self.process.poll() is not None:
            self.process = self.running.enter_context(live_process(self.world))


@pytest.fixture(scope="session")
def shared(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    copied = Path(shutil.copy(world.atlas, tmp_path_factory.mktemp("shared")))
    with TemporaryDirectory(prefix="al-") as folder, ExitStack() as running:
        yield Shared(World(world.tiny, copied), Path(folder), running)


@pytest.fixture(scope="module")
def process(shared: Shared) -> Iterator[World]:
    """One for all tests that do not end it."""
    with sockets_in(shared.sockets):
        shared.start()
        yield shared.world

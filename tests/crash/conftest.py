"""A tiny model on disk, what an atlas of it holds, and ingests of it that were stopped."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from ingest.store.doctor_cli import doctor
from tests import preloaded
from tests.exact.published import Published
from tests.exact.tiny import Tiny, make, run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("opt"), "opt")


def sums(path: Path) -> dict[str, tuple]:
    """A checksum of every table."""
    published = Published(path)
    with closing(published.con):
        return published.checksums()


def ask_doctor(target: Path, *options: str) -> Result:
    return CliRunner().invoke(doctor, [str(target), *options])


ASKED = """
import sys
from pathlib import Path
import torch
from schema.errors import AtlasError
from tests.exact.tiny import run, tiny_request
folder, target = Path(sys.argv[1]), Path(sys.argv[2])
torch.set_num_threads(int(sys.argv[3]))
{before}
try:
    run(tiny_request(folder / "tiny-opt", folder / "corpus.jsonl", target))
except AtlasError as error:
    sys.exit(str(error))
"""
"""An ingest of its own process, with something done before."""

STOPPED = """
import os, shutil, signal, sys
from pathlib import Path
from ingest.store import committer
from tests.exact.tiny import run, tiny_request
import torch
torch.set_num_threads(int(sys.argv[4]))
load, loaded, keep = committer.load_shard, [], sys.argv[3]
def stopped(con, shard):
    # what is loaded stays in the log
    con.execute("PRAGMA disable_checkpoint_on_shutdown")
    con.execute("SET wal_autocheckpoint = '1TB'")
    if len(loaded) == 3:
        shutil.copytree(shard.path, target.with_name("fourth"))
    if len(loaded) == 5 and keep == "shard":
        os.kill(os.getpid(), signal.SIGKILL)
    load(con, shard)
    loaded.append(shard)
    if len(loaded) == 9 and keep == "log":
        os.kill(os.getpid(), signal.SIGKILL)
    if len(loaded) == 9 and keep != "shard":
        con.execute(f"SET debug_checkpoint_abort = '{keep}'")
        con.execute("CHECKPOINT")
committer.load_shard = stopped
folder, target = Path(sys.argv[1]), Path(sys.argv[2])
run(tiny_request(folder / "tiny-opt", folder / "corpus.jsonl", target))
"""
"""Dies at the sixth shard, the second of the trace, before it is loaded, or at the ninth, loaded, or in the middle of a checkpoint.
Leaves a copy of the fourth, the first of the trace, beside the atlas."""


@pytest.fixture(scope="session")
def undisturbed(tiny: Tiny) -> Path:
    """An atlas whose ingest nothing befell."""
    return run(tiny.request(tiny.corpus.parent / "undisturbed.duckdb"))


@pytest.fixture(scope="session")
def expected(undisturbed: Path) -> dict[str, tuple]:
    return sums(undisturbed)


@pytest.fixture
def finished(undisturbed: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copy(undisturbed, tmp_path / "a.duckdb"))


@pytest.fixture(scope="session")
def stopped(tiny: Tiny) -> Callable[[str], Path]:
    """The working folder of an ingest that was killed, by where it was."""
    made: dict[str, Path] = {}

    def stop(keep: str) -> Path:
        if keep not in made:
            target = tiny.corpus.parent / keep / "a.duckdb"
            target.parent.mkdir()
            arguments = [str(tiny.corpus.parent), str(target), keep, str(torch.get_num_threads())]
            done = preloaded.run(STOPPED, *arguments)
            assert done.returncode in (-9, 1), done.stderr
            made[keep] = target.parent
        return made[keep]

    return stop


@pytest.fixture
def interrupted(stopped: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of such a folder: the atlas's name, and beside it the work of a dead process."""

    def copied(keep: str) -> Path:
        shutil.copytree(stopped(keep), tmp_path / keep)
        return tmp_path / keep / "a.duckdb"

    return copied

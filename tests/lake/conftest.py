"""A tiny model, the atlas file of it that nobody disturbed, and lakes of their own for each test."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
import torch

from atlas.cli.main import run as atlas_command
from ingest.request import Request
from tests.exact.published import Published
from tests.exact.tiny import Tiny, make, run
from tests.lake.servers import Servers

NUMBERS = count()

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("opt"), "opt")


@pytest.fixture(scope="session")
def file(tiny: Tiny) -> Path:
    """An atlas file made in one go."""
    return run(tiny.request(tiny.corpus.parent / "file.duckdb"))


@pytest.fixture
def request_lake(tiny: Tiny, servers: Servers, tmp_path: Path) -> Callable[..., Request]:
    """A request for a lake of its own; NAME.lake is in the test's folder."""

    def asked(name: str = "atlas", **changes: object) -> Request:
        number = f"lake{next(NUMBERS)}"
        return tiny.request(tmp_path / f"{name}.lake", lake=servers.catalogue(number), data=servers.data(number), **changes)

    return asked


@pytest.fixture
def call(capsys: pytest.CaptureFixture) -> Callable[..., tuple[int, str, str]]:
    """Exit code, output and errors of one `atlas` command."""

    def called(*arguments: object) -> tuple[int, str, str]:
        code = atlas_command([str(a) for a in arguments], is_debug=False)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return called


def sums(path: Path) -> dict[str, tuple]:
    """A checksum of every table."""
    published = Published(path)
    try:
        return published.checksums()
    finally:
        published.con.close()


def contents(path: Path) -> dict[str, tuple]:
    """The same, but for the manifest, which counts the candidates of a shard: more where a worker did not know the others' triggers."""
    return {name: found for name, found in sums(path).items() if name != "shard"}

"""Servers of a lake that are silent or gone, and two who pull at once: each ends in a line."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ingest.request import Request
from ingest.store.lake import pull as pulling
from schema.errors import AtlasError
from schema.open.lake import Lake, timeout_s
from tests.exact.tiny import run

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Port of a server that takes every connection and never says anything."""
    monkeypatch.setenv("ATLAS_LAKE_TIMEOUT", "2")
    # set by whatever opened a lake before
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(50)
        yield server.getsockname()[1]


def one_line(err: str) -> str:
    """The error, of one line, behind what the ingest before it noted."""
    (found,) = [line for line in err.splitlines(keepends=True) if not line.startswith("note: texts spell special tokens")]
    assert "unexpected" not in found, err
    return found


def of(path: Path, lake: Lake) -> Path:
    path.write_text(f'{{"catalogue": "{lake.catalogue}", "data": "{lake.data}"}}')
    return path


@pytest.mark.parametrize("command", ["ask", "pull"])
def test_a_silent_catalogue_is_given_up(mute: int, tmp_path: Path, call: Call, command: str) -> None:
    path = of(tmp_path / "a.lake", Lake(f"postgresql://127.0.0.1:{mute}/atlas", "s3://atlases/none"))
    arguments = ("ask", "corpus_summary", "--db", path) if command == "ask" else ("pull", path, tmp_path / "a.duckdb")
    code, _, err = call(*arguments)
    assert code == 1
    assert one_line(err).endswith("connection timeout expired (ATLAS_LAKE_TIMEOUT says how many seconds to wait)\n")


@pytest.mark.long
def test_a_silent_or_missing_storage_is_given_up(
    request_lake: Callable[..., Request], mute: int, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run(request_lake(trace=0, paper=False))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        for port in (mute, nobody.getsockname()[1]):
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            code, _, err = call("sql", "FROM neuron LIMIT 1", "--db", path)
            assert code == 1
            assert "the storage of this lake does not answer" in one_line(err)
            code, _, err = call("pull", path, tmp_path / "a.duckdb")
            assert code == 1
            assert f"{path} could not be pulled, and no file was made at {tmp_path / 'a.duckdb'}" in one_line(err)
    assert [p.name for p in tmp_path.iterdir() if p.name != path.name] == []


@pytest.mark.thorough
def test_of_two_that_pull_to_one_name_the_second_is_refused(
    request_lake: Callable[..., Request], tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, target = run(request_lake(trace=0, paper=False)), tmp_path / "pulled.duckdb"
    seen: list[tuple[int, str, str]] = []
    copy = pulling.copy

    def copy_beside_another(*arguments: object) -> None:
        # one that is let in copies, and calls no third
        monkeypatch.setattr(pulling, "copy", copy)
        seen.append(call("pull", path, target))
        copy(*arguments)

    monkeypatch.setattr(pulling, "copy", copy_beside_another)
    # what a pull that was killed left, and what is the user's own
    left, own = target.with_name(f".{target.name}.{'0123456789abcdef'}.tmp"), target.with_name(f"{target.name}.tmp")
    for file in (left, own):
        file.write_bytes(b"half")
    assert call("pull", path, target)[0] == 0
    assert [(code, one_line(err)) for code, _, err in seen] == [(1, f"Error: another process is pulling into {target}: wait for it, or give another name\n")]
    assert (left.exists(), own.read_bytes()) == (False, b"half")
    assert sorted(p.name for p in tmp_path.glob("*pulled*")) == ["pulled.duckdb", "pulled.duckdb.tmp"]


@pytest.mark.parametrize("said", ["", "0", "-1", "1.5", "soon", "86401"])
def test_what_is_no_number_of_seconds_is_refused(said: str) -> None:
    with pytest.raises(AtlasError, match="ATLAS_LAKE_TIMEOUT is how many seconds a lake's servers may be silent"):
        timeout_s({"ATLAS_LAKE_TIMEOUT": said})

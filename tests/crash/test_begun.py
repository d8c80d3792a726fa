"""What was read of a shard that is not done is kept: each batch is read once however often the reading ends, and the numbers are the same to the bit."""

import errno
import hmac
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import atlas
from ingest.cli import describe_kept
from ingest.recorders import reading
from ingest.recorders.base import ResumableRecorder
from ingest.recorders.predictions import Predictions
from ingest.request import Request
from ingest.run import ingest
from ingest.store.committer import BEGUN, work_folder
from ingest.workers import begun
from ingest.workers.begun import ShardCheckpoint, freeze, sign, thaw
from schema.progress import progress_bar
from tests.crash.conftest import sums
from tests.exact.tiny import Tiny

PASSES = {"prediction": True, "attribution": True, "head_statistics": True, "keys": True, "paper": False, "shard_positions": None, "distinct": 4}


class Struck(KeyboardInterrupt):
    pass


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """The sequences of each batch that a model read, in order; after each that is written down the ingest is struck, once a run."""
    found: list[tuple[int, ...]] = []
    real, save = reading.read_batch, ShardCheckpoint.save_if_due

    def note_batch(model: object, recorders: object, batch: tuple) -> Iterator[tuple]:
        yield from real(model, recorders, batch)  # type: ignore[arg-type]
        found.append(tuple(s.sequence_id for s in batch))

    def struck(self: ShardCheckpoint, *given: object) -> None:
        self.every = self.saving_took = 0.0
        save(self, *given)  # type: ignore[arg-type]
        raise Struck

    monkeypatch.setattr(reading, "read_batch", note_batch)
    monkeypatch.setattr(ShardCheckpoint, "save_if_due", struck)
    return found


def said(request: Request) -> str | None:
    """What an ingest says when it is struck; None where it comes to its end."""
    with progress_bar(is_quiet=True) as bar:
        try:
            ingest(request, bar)
        except Struck:
            return describe_kept(bar)
    return None


@pytest.mark.thorough
def test_each_batch_is_read_once_and_what_is_said_to_be_kept_is(
    tiny: Tiny, tmp_path: Path, read: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    there, messages = tmp_path / "there.duckdb", []
    while message := said(tiny.request(there, **PASSES)):
        messages.append(int(re.search(r"([\d,]+) of [\d,]+ tokens of sweep", message)[1].replace(",", "")))  # type: ignore[index]
        assert len(messages) < 100
    with atlas.open(there) as a:
        lengths = dict(a.sql("SELECT s.sequence_id, s.n_positions FROM sequence AS s").rows())
    # each time the batch that it was struck after is kept, and the last time none was left
    assert messages == np.cumsum([sum(lengths[i] for i in batch) for batch in read]).tolist()
    assert len(read) == len(set(read)) > 5
    assert sorted(i for batch in read for i in batch) == sorted(lengths)
    assert not work_folder(there).exists()
    monkeypatch.undo()
    assert said(tiny.request(tmp_path / "at once.duckdb", **PASSES)) is None
    assert sums(there) == sums(tmp_path / "at once.duckdb")


@pytest.mark.thorough
def test_a_run_with_other_settings_takes_nothing_of_one_that_was_given_up(
    tiny: Tiny, tmp_path: Path, read: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    there, alone = tmp_path / "there.duckdb", tmp_path / "alone.duckdb"
    plain = {"paper": False, "trace": 0, "shard_positions": None}
    assert said(tiny.request(there, **plain, skip_first=2))
    monkeypatch.undo()
    for path in (there, alone):
        assert said(tiny.request(path, **plain, skip_first=0)) is None
    assert sums(there) == sums(alone)


class Counts(ResumableRecorder):
    """A recorder that has counted."""

    held = ("counts",)

    def __init__(self) -> None:
        self.counts = np.zeros(100)


def write_checkpoint(path: Path) -> tuple[dict, bytes]:
    """The file of a recorder that has heard three batches: its header and what follows."""
    counts = Counts()
    counts.counts += 1
    ShardCheckpoint(path, every=0).save_if_due("of this text", 3, [counts])
    header, data = path.read_bytes()[64:].split(b"\n", 1)
    return json.loads(header), data


def test_what_was_written_is_held_again(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / BEGUN)
    counts = Counts()
    assert ShardCheckpoint(tmp_path / BEGUN).restore("of this text", [counts]) == 3
    assert counts.counts.tolist() == [1.0] * 100
    # a minute has not gone by
    (tmp_path / BEGUN).unlink()
    ShardCheckpoint(tmp_path / BEGUN).save_if_due("of this text", 4, [counts])
    assert list(tmp_path.iterdir()) == []


def restore_counts(path: Path, identity: str = "of this text") -> int:
    """Batches that are not read again."""
    counts = Counts()
    n_batches = ShardCheckpoint(path).restore(identity, [counts])
    assert counts.counts.tolist() == [float(n_batches > 0)] * 100
    return n_batches


@pytest.mark.parametrize(
    "damage", ["a bit", "cut", "empty", "none", "a link", "a pipe", "a folder", "another user's", "huge", "another secret", "an empty secret", "unsigned"]
)
def test_what_is_damaged_or_of_another_user_is_read_again(tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / BEGUN
    write_checkpoint(path)
    assert restore_counts(path) == 3
    whole = path.read_bytes()
    path.unlink()
    match damage:
        case "a bit":
            path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 4]) + whole[-8:])
        case "cut":
            path.write_bytes(whole[:-8])
        case "empty":
            path.touch()
        case "a link":
            path.symlink_to(tmp_path / "theirs")
            (tmp_path / "theirs").write_bytes(whole)
        case "a pipe":
            os.mkfifo(path)
        case "a folder":
            path.mkdir()
        case "another user's":
            path.write_bytes(whole)
            monkeypatch.setattr(begun.os, "getuid", lambda: os.geteuid() + 1)
        case "huge":
            path.write_bytes(whole)
            os.truncate(path, 2**43)
        case "another secret":
            path.write_bytes(whole)
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of another user"))
        case "an empty secret":
            path.write_bytes(hmac.new(b"", whole[64:], "sha256").hexdigest().encode() + whole[64:])
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
            (tmp_path / "activation-atlas").mkdir()
            (tmp_path / "activation-atlas" / "begun.secret").touch()
        case "unsigned":
            path.write_bytes(b"0" * 64 + whole[64:])
    assert restore_counts(path) == 0


@pytest.mark.parametrize("other", ["a text", "a class", "a dtype", "a recorder"])
def test_what_is_of_something_else_is_read_again(tmp_path: Path, other: str) -> None:
    path, identity = tmp_path / BEGUN, "of this text"
    header, data = write_checkpoint(path)
    match other:
        case "a text":
            identity = "of another text"
        case "a class":
            header["states"] = {"list": [{"class": ["pathlib", "Path"], "fields": {}}]}
        case "a dtype":
            header["states"]["list"][0]["dict"][0][1]["array"] = "|O"
        case "a recorder":
            header["states"]["list"][0]["dict"][0][0] = "restore"
    signed = json.dumps(header).encode() + b"\n" + data
    path.write_bytes(sign([signed]).encode() + signed)
    assert restore_counts(path, identity) == 0


def test_what_lies_in_the_place_of_a_draft_is_not_written_through(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("of another")
    (tmp_path / f"{BEGUN}.new").symlink_to(theirs)
    write_checkpoint(tmp_path / BEGUN)
    assert theirs.read_text() == "of another"
    assert restore_counts(tmp_path / BEGUN) == 3


def test_a_disk_that_is_full_ends_nothing_and_nothing_is_said_to_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(begun, "put_in_place", full)
    process = ShardCheckpoint(tmp_path / BEGUN, every=0)
    process.tell = pytest.fail
    process.save_if_due("of this text", 1, [Counts()])
    assert not (tmp_path / BEGUN).exists()


def test_a_state_comes_back_as_it_was_and_what_has_no_form_is_refused() -> None:
    arrays: list[np.ndarray] = []
    state = {3: (np.arange(5, dtype=np.int16), None, "x"), 2: [Predictions(np.ones((2, 2), np.float32), np.zeros(0, np.int32), np.array(7, np.int32))]}
    tree = json.loads(json.dumps(freeze(state, arrays)))
    back = thaw(tree, np.concatenate(arrays))
    assert repr(back) == repr(state)
    with pytest.raises(TypeError, match="no form for <class 'pathlib"):
        freeze({"a": Path()}, arrays)
    for evil in (["os", "system"], ["ingest.recorders.predictions", "PredictionRecorder"], ["ingest.recorders.predictions", "top_k"]):
        with pytest.raises(TypeError, match="no class of a recorder's state"):
            thaw({"class": evil, "fields": {}}, np.zeros(0, np.uint8))

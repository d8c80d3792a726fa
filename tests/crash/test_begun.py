"""What was read of a shard that is not done is kept: each batch is read once however often the reading ends, and the numbers are the same to the bit."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import atlas
from ingest.cli import kept
from ingest.recorders import reading
from ingest.recorders.base import Holding
from ingest.recorders.predictions import Predictions
from ingest.request import Request
from ingest.run import ingest
from ingest.store.committer import BEGUN, work_folder
from ingest.workers.begun import Begun, frozen, thawed
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
    real, save = reading.read_batch, Begun.save_if_due

    def noted(model: object, recorders: object, batch: tuple) -> Iterator[tuple]:
        yield from real(model, recorders, batch)  # type: ignore[arg-type]
        found.append(tuple(s.sequence_id for s in batch))

    def struck(self: Begun, *given: object) -> None:
        self.every = self.saving_took = 0.0
        save(self, *given)  # type: ignore[arg-type]
        raise Struck

    monkeypatch.setattr(reading, "read_batch", noted)
    monkeypatch.setattr(Begun, "save_if_due", struck)
    return found


def said(request: Request) -> str | None:
    """What an ingest says when it is struck; None where it comes to its end."""
    with progress_bar(is_quiet=True) as bar:
        try:
            ingest(request, bar)
        except Struck:
            return kept(bar)
    return None


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


class Counts(Holding):
    """A recorder that has counted."""

    held = ("counts",)

    def __init__(self) -> None:
        self.counts = np.zeros(100)


def written(path: Path) -> tuple[dict, bytes]:
    """The file of a recorder that has heard three batches: its header and what follows."""
    counts = Counts()
    counts.counts += 1
    Begun(path, every=0).save_if_due("of this text", 3, [counts])
    header, data = path.read_bytes().split(b"\n", 1)
    return json.loads(header), data


def test_what_was_written_is_held_again(tmp_path: Path) -> None:
    written(tmp_path / BEGUN)
    counts = Counts()
    assert Begun(tmp_path / BEGUN).restore("of this text", [counts]) == 3
    assert counts.counts.tolist() == [1.0] * 100
    # a minute has not gone by
    (tmp_path / BEGUN).unlink()
    Begun(tmp_path / BEGUN).save_if_due("of this text", 4, [counts])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["a bit", "cut", "of another text", "empty", "a class of others", "none", "a dtype"])
def test_what_is_damaged_or_of_something_else_is_read_again(tmp_path: Path, damage: str) -> None:
    path, identity = tmp_path / BEGUN, "of this text"
    header, data = written(path)
    match damage:
        case "a bit":
            data = bytes([data[9] ^ 4]).join((data[:9], data[10:]))
        case "cut":
            data = data[:-8]
        case "of another text":
            identity = "of another text"
        case "a class of others":
            header["states"] = {"list": [{"class": ["pathlib", "Path"], "fields": {}}]}
        case "a dtype":
            header["states"]["list"][0]["dict"][0][1]["array"] = "|O"
    path.write_bytes(b"" if damage == "empty" else json.dumps(header).encode() + b"\n" + data)
    if damage == "none":
        path.unlink()
    counts = Counts()
    assert Begun(path).restore(identity, [counts]) == 0
    assert not counts.counts.any()


def test_a_disk_that_is_full_ends_nothing(tmp_path: Path) -> None:
    begun = Begun(tmp_path / "no such folder" / BEGUN, every=0)
    begun.tell = pytest.fail
    begun.save_if_due("of this text", 1, [Counts()])


def test_a_state_comes_back_as_it_was_and_what_has_no_form_is_refused() -> None:
    arrays: list[np.ndarray] = []
    state = {3: (np.arange(5, dtype=np.int16), None, "x"), 2: [Predictions(np.ones((2, 2), np.float32), np.zeros(0, np.int32), np.array(7, np.int32))]}
    tree = json.loads(json.dumps(frozen(state, arrays)))
    back = thawed(tree, np.concatenate(arrays))
    assert repr(back) == repr(state)
    with pytest.raises(TypeError, match="no form for <class 'pathlib"):
        frozen({"a": Path()}, arrays)
    for evil in (["os", "system"], ["ingest.recorders.predictions", "PredictionRecorder"], ["ingest.recorders.predictions", "top_k"]):
        with pytest.raises(TypeError, match="no class of a recorder's state"):
            thawed({"class": evil, "fields": {}}, np.zeros(0, np.uint8))

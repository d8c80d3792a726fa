"""The next shard is computed while one is written and loaded: in order, and nothing goes on after the end."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from ingest import run as driver
from ingest.store import committer
from ingest.store.shards import Folder
from ingest.workers.pool import Job, LocalPool, job, write_shards
from ingest.workers.worker import Progress, Worker
from schema.errors import AtlasError
from tests.exact.published import Published
from tests.exact.tiny import Tiny, make, run
from tests.ingest.tiny_models import tiny_model
from tests.waiting import HANG_S

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("gpt2"), "gpt2")


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ingest on the processors does as one on a GPU."""
    monkeypatch.setattr(driver, "pool_for", lambda request, model, staging, work: nullcontext(LocalPool(Worker(model), staging, ahead=True)))


class Recorded:
    """Jobs that say when they begin and end."""

    def __init__(self, n: int, failing: int | None = None, long: int | None = None) -> None:
        self.events: list[str] = []
        self.n, self.failing, self.long = n, failing, long
        self.began = [threading.Event() for _ in range(n)]

    def jobs(self) -> Iterator[Job]:
        for i in range(self.n):
            self.events.append(f"made {i} by {threading.current_thread() is threading.main_thread()}")
            yield job(0, i, self.compute, i=i)

    def compute(self, _worker: Worker, progress: Progress, *, i: int) -> dict[str, pa.Table]:
        assert threading.current_thread() is not threading.main_thread()
        self.began[i].set()
        progress(0.5)
        if i == self.failing:
            raise AtlasError(f"layer {i}: NaN")
        while i == self.long:
            time.sleep(0.01)
            progress(0)
        self.events.append(f"computed {i} on {torch.get_num_threads()}")
        progress(0.5)
        return {"neuron": pa.table({"i": [i]})}


def pool(folder: Path) -> LocalPool:
    return LocalPool(Worker(tiny_model("gpt2")), Folder(folder), ahead=True)


def test_each_job_is_computed_once_in_order_and_one_ahead(tmp_path: Path) -> None:
    recorded, done = Recorded(4), []
    for i, shard in enumerate(pool(tmp_path).shards(recorded.jobs(), lambda *told: done.append(told))):
        assert shard.shard_id == i and shard.n_rows == {"neuron": 1}
        if i < 3:
            assert recorded.began[i + 1].wait(HANG_S), "while this shard is loaded, the next is computed"
    assert [e for e in recorded.events if e.startswith("computed")] == [f"computed {i} on 1" for i in range(4)]
    assert [e for e in recorded.events if e.startswith("made")] == [f"made {i} by True" for i in range(4)]
    assert {run_id for run_id, _ in done} == {0} and sum(n for _, n in done) == 4


def test_what_a_job_refuses_is_said_when_those_before_it_are_loaded(tmp_path: Path) -> None:
    recorded, loaded = Recorded(4, failing=2), []
    with pytest.raises(AtlasError, match="layer 2: NaN"):
        loaded.extend(shard.shard_id for shard in pool(tmp_path).shards(recorded.jobs(), lambda *_: None))
    assert loaded == [0, 1]


def test_an_interruption_ends_the_thread(tmp_path: Path) -> None:
    recorded, before = Recorded(9, long=1), threading.active_count()

    def load() -> None:
        with closing(pool(tmp_path).shards(recorded.jobs(), lambda *_: None)) as shards:
            next(shards)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load()
    assert threading.active_count() == before
    assert sorted(recorded.events) == ["computed 0 on 1", "made 0 by True", "made 1 by True"], "the second is given up at its next progress"


@pytest.mark.thorough
def test_the_atlas_is_the_same(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Published(run(tiny.request(tmp_path / "a.duckdb"))).checksums()
    monkeypatch.setattr(driver, "pool_for", lambda request, model, staging, work: nullcontext(LocalPool(Worker(model), staging, ahead=True)))
    assert Published(run(tiny.request(tmp_path / "b.duckdb"))).checksums() == expected


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.usefixtures("ahead")
@pytest.mark.parametrize("n_shards", [0, 1, 4])
def test_an_interrupted_ingest_goes_on(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_shards: int) -> None:
    target, loaded, real, before = tmp_path / "a.duckdb", [], committer.load_shard, threading.active_count()

    def load_or_stop(con: object, shard: object) -> None:
        if len(loaded) == n_shards:
            raise KeyboardInterrupt
        loaded.append(shard)
        real(con, shard)

    monkeypatch.setattr(committer, "load_shard", load_or_stop)
    with pytest.raises(KeyboardInterrupt):
        run(tiny.request(target))
    assert threading.active_count() == before
    monkeypatch.setattr(committer, "load_shard", real)
    assert Published(run(tiny.request(target))).checksums() == Published(run(tiny.request(tmp_path / "b.duckdb"))).checksums()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("kind", [pa.float32(), pa.list_(pa.float32(), 2), pa.list_(pa.float64())])
def test_nothing_that_is_not_finite_is_written(tmp_path: Path, bad: float, kind: pa.DataType) -> None:
    good, wrong = ([1.0, 2.0], [1.0, bad]) if pa.types.is_nested(kind) else (1.0, bad)
    rows = {"i": pa.array([1, 2, 3]), "x": pa.array([good, None, wrong], kind)}
    folder = Folder(tmp_path / "shards")
    with pytest.raises(AtlasError, match=r"trigger\.x: 1 of \d numbers are NaN or infinite; nothing of this shard was stored"):
        list(write_shards(folder, 0, {(0, 0): {"text": pa.table({"i": [1]})}, (0, 1): {"trigger": pa.table(rows)}}))
    assert not folder.waiting_shards()
    list(write_shards(folder, 0, {(0, 1): {"trigger": pa.table(rows).slice(0, 2)}}))
    assert len(folder.waiting_shards()) == 1

"""Several workers, some killed and some that do not move: the atlas is that of one."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from ray.cluster_utils import Cluster

from ingest.store.committer import staging_folder, work_folder
from ingest.store.shards import Folder
from ingest.workers import ray_pool
from ingest.workers.pool import job
from ingest.workers.worker import Progress, Worker
from schema.errors import AtlasError
from tests import preloaded
from tests.crash.kill_loop import comparable
from tests.exact.tiny import CIRCUITS, Tiny, run
from tests.waiting import HANG_S, wait_until

ALONE = """
import sys, torch
from pathlib import Path
from tests.exact.tiny import CIRCUITS, run, tiny_request
torch.set_num_threads(1)
folder = Path(sys.argv[1])
run(tiny_request(folder / "tiny-opt", folder / "corpus.jsonl", Path(sys.argv[2]), **CIRCUITS))
"""
"""One worker of one thread, as each of several has: sums depend on the number of threads in their last bit."""


@pytest.fixture(scope="module")
def expected(tiny: Tiny) -> dict[str, tuple]:
    target = tiny.corpus.parent / "alone.duckdb"
    preloaded.run(ALONE, str(tiny.corpus.parent), str(target)).check_returncode()
    return comparable(target)


@pytest.fixture(autouse=True)
def one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "threads_each", lambda n_workers: 1)


@pytest.mark.first_cases(0)
@pytest.mark.parametrize("n", [2, 4])
def test_several_workers_make_the_atlas_of_one(tiny: Tiny, expected: dict, tmp_path: Path, n: int) -> None:
    assert comparable(run(tiny.request(tmp_path / f"{n}.duckdb", workers=n, **CIRCUITS))) == expected


@pytest.mark.long
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_dies_or_stands_still_is_made_up_for(
    tiny: Tiny, expected: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signal_number: int
) -> None:
    """After the third shard, whoever of the two is then computing it."""
    hit, shards = [], ray_pool.RayPool.shards

    def disturbed(self, jobs, advance):
        for i, shard in enumerate(shards(self, jobs, advance)):
            if i == 1 and len(hit) < 2:
                pid = self.ray.get(self.workers[len(hit) % 2].pid.options(concurrency_group="ask").remote())
                os.kill(pid, signal_number)
                hit.append(pid)
            yield shard

    monkeypatch.setattr(ray_pool.RayPool, "shards", disturbed)
    if signal_number == signal.SIGSTOP:
        hit.append(None)
    assert comparable(run(tiny.request(tmp_path / "a.duckdb", workers=2, **CIRCUITS))) == expected
    assert len(hit) == 2


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Machines as Ray sees them, each with one processor: one to begin with."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    made.shutdown()


@pytest.mark.long
def test_a_machine_that_joins_late_and_one_that_is_lost(tiny: Tiny, expected: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    """The second worker finds room after the second shard, on a machine that is lost once it has brought one, with what it is then computing."""
    brought, late, lost, shards = [], [], [], ray_pool.RayPool.shards
    late_ones = staging_folder(work_folder(tmp_path / "a.duckdb")) / "worker-1"

    def disturbed(self, jobs, advance):
        for shard in shards(self, jobs, advance):
            brought.append(shard.worker)
            if len(brought) == 2:
                late.append(cluster.add_node(num_cpus=1))
                self.ray.get(self.workers[1].pid.options(concurrency_group="ask").remote(), timeout=HANG_S)
            if shard.worker != brought[0] and not lost:
                lost.append(shard.worker)
                cluster.remove_node(late[0], allow_graceful=False)
            if late and not lost:
                # meanwhile the first worker has one job alone
                wait_until(lambda: any(late_ones.glob("[!.]*")), "the machine that came late writes a shard")
            yield shard

    monkeypatch.setattr(ray_pool.RayPool, "shards", disturbed)
    assert comparable(run(tiny.request(tmp_path / "a.duckdb", workers=2, ray=cluster.address, **CIRCUITS))) == expected
    assert len(set(brought[:2])) == 1, "there was room for one"
    assert len(lost) == 1, "the machine that came late brought nothing"


@pytest.mark.thorough
def test_what_a_worker_refuses_is_said_as_by_one_alone(tiny: Tiny, tmp_path: Path) -> None:
    def refuse(worker: Worker, progress: Progress) -> dict:
        raise AtlasError("layer 3: NaN")

    with closing(ray_pool.RayPool(tiny.request(tmp_path / "a.duckdb"), Folder(tmp_path), 1, None)) as pool, pytest.raises(AtlasError) as found:
        list(pool.shards([job(0, 0, refuse)], lambda _: None))
    assert str(found.value) == "layer 3: NaN"


@pytest.mark.thorough
def test_what_workers_have_for_whom_there_is_no_room_is_given_to_those_who_run(tiny: Tiny, tmp_path: Path) -> None:
    """Two workers more than Ray has processors for come first: one is given the only job, the other the same job once more."""

    def compute(_worker: Worker, _progress: Progress) -> dict[str, pa.Table]:
        return {"neuron": pa.table({"i": [0]})}

    deadline = time.monotonic() + 240

    def advance(_: float) -> None:
        assert time.monotonic() < deadline, "nobody does it"

    n = (os.cpu_count() or 1) + 2
    with closing(ray_pool.RayPool(tiny.request(tmp_path / "a.duckdb"), Folder(tmp_path), n, None)) as pool:
        while len(pool.heard) < n - 2:
            advance(0)
            pool.progress()
        pool.workers = [pool.workers[i] for i in sorted(range(n), key=pool.heard.__contains__)]
        pool.heard.clear()
        assert [shard.shard_id for shard in pool.shards([job(0, 0, compute)], advance)] == [0]

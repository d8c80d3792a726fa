"""Pools that compute the shards: this process alone, or workers on any number of processors and machines (ingest/workers/ray_pool.py)."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, Protocol

import torch

from ingest.store.shards import Shard, Staging
from ingest.workers.finite import NotFinite, require_finite
from ingest.workers.memory import trim_heap
from ingest.workers.worker import Advance, Tables, Worker

Key = tuple[int, int]
"""Run and number of a shard."""


@dataclass(frozen=True)
class Job:
    """Shards that are computed together. `function`, called with the worker, the progress and the arguments, returns the tables of each shard.

    The shards are loaded in the order of `keys`. A job that was interrupted is made again, without the shards that are already loaded.

    run_ids: all runs that are computed together, even those without a shard in this job; the worker keeps the states that their shards share.
    """

    keys: tuple[Key, ...]
    function: Callable[..., list[Tables]]
    arguments: Mapping[str, Any]
    run_ids: frozenset[int]

    def compute(self, worker: Worker, advance: Advance) -> dict[Key, Tables]:
        worker.drop_all_but(self.run_ids)
        tables = dict(zip(self.keys, self.function(worker, advance, **self.arguments), strict=True))
        trim_heap()
        return tables


def job(run_id: int, shard_id: int, function: Callable[..., Tables], /, **arguments: object) -> Job:
    """Build the job of a shard that is computed by itself."""
    return Job(((run_id, shard_id),), partial(compute_single_shard, function, run_id), arguments, frozenset({run_id}))


def compute_single_shard(function: Callable[..., Tables], of: int, worker: Worker, advance: Advance, /, **arguments: object) -> list[Tables]:
    return [function(worker, partial(advance, of), **arguments)]


def write_shards(staging: Staging, worker: int, tables: Mapping[Key, Tables]) -> Iterator[Shard]:
    """Write the shards of a job, and yield each in order once it is on disk. Raises NotFinite, before any is written, for numbers that are not finite."""
    for of_shard in tables.values():
        for name, table in of_shard.items():
            with explain_not_finite():
                require_finite(name, table)
    keys = list(tables)
    return (staging.write(worker, *key, tables[key], keys[:i]) for i, key in enumerate(keys))


@contextmanager
def explain_not_finite() -> Iterator[None]:
    """Add advice to a NotFinite that the block raises; it covers every dtype in which the numbers may have been computed."""
    try:
        yield
    except NotFinite as error:
        raise NotFinite(
            f"{error}. If they were computed in float16, whose largest number is 65,504, use --dtype bfloat16 or float32; else check the model's weights"
        ) from error


class Pool(Protocol):
    """Workers that compute jobs. `local`: the worker, if it is in this process."""

    @property
    def local(self) -> Worker | None: ...

    def shards(self, jobs: Iterable[Job], advance: Advance) -> Generator[Shard]:
        """Yield the shards of all jobs, complete on disk, each exactly once and in any order. advance: called with the work done since its last call.

        A caller that does not take all of them must close the generator.
        """


class LocalPool:
    """A pool that computes one job after the other in this process. ahead: whether a thread computes the next job while a shard is written and loaded.

    Computing ahead pays off on a GPU. On CPUs it slows the forward pass by as much as it saves, and an interruption would wait for a batch.
    """

    def __init__(self, worker: Worker, staging: Staging, ahead: bool) -> None:
        self.local: Worker | None = worker
        self.worker, self.staging, self.ahead = worker, staging, ahead

    def shards(self, jobs: Iterable[Job], advance: Advance) -> Generator[Shard]:
        computed = self.computed_ahead(jobs, advance) if self.ahead else (each.compute(self.worker, advance) for each in jobs)
        with closing(computed):
            for tables in computed:
                yield from write_shards(self.staging, 0, tables)

    def computed_ahead(self, jobs: Iterable[Job], advance: Advance) -> Generator[dict[Key, Tables]]:
        """Yield each job's tables while a thread computes the next job's. Jobs are made in the caller's thread; closing stops the work at the next progress."""
        closed = Event()

        def go_on(run_id: int, n: float) -> None:
            if closed.is_set():
                raise CancelledError
            advance(run_id, n)

        # a thread's first product would be shared among all processors, and its sums differ in their last bit
        with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),)) as thread:
            waiting: deque[Future[dict[Key, Tables]]] = deque()
            try:
                for each in jobs:
                    waiting.append(thread.submit(each.compute, self.worker, go_on))
                    if len(waiting) > 1:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                closed.set()
                thread.shutdown(wait=False, cancel_futures=True)

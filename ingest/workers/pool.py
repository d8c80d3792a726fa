"""Who computes the shards: this process alone, or workers on as many processors and machines as there are (ingest/workers/ray_pool.py)."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol

import pyarrow as pa

from ingest.store.shards import Shard, Staging
from ingest.workers.worker import Progress, Worker

Tables = dict[str, pa.Table]


@dataclass(frozen=True)
class Job:
    """A shard to compute: by which method of Worker, and its arguments but the progress."""

    run_id: int
    shard_id: int
    method: Callable[..., Tables]
    arguments: Mapping[str, Any]

    @property
    def key(self) -> tuple[int, int]:
        """Run and number of the shard."""
        return self.run_id, self.shard_id

    def compute(self, worker: Worker, progress: Progress) -> Tables:
        return self.method(worker, progress, **self.arguments)


class Pool(Protocol):
    """`local`: the worker, where it is in this process."""

    @property
    def local(self) -> Worker | None: ...

    def shards(self, jobs: Iterable[Job], advance: Progress) -> Generator[Shard]:
        """Every job's shard, complete on disk, each exactly once and in any order. advance: called with what has been done since.

        To be closed by whoever does not take them all.
        """


class Alone:
    """One job after the other, in this process. ahead: whether the next is computed, in a thread, while a shard is written and loaded.

    That pays where a GPU computes. On the processors it takes from the forward pass what it gives, and an interruption would wait for a batch.
    """

    def __init__(self, worker: Worker, staging: Staging, ahead: bool) -> None:
        self.local: Worker | None = worker
        self.worker, self.staging, self.ahead = worker, staging, ahead

    def shards(self, jobs: Iterable[Job], advance: Progress) -> Generator[Shard]:
        computed = self.computed_ahead(jobs, advance) if self.ahead else ((job, job.compute(self.worker, advance)) for job in jobs)
        with closing(computed):
            for job, tables in computed:
                yield self.staging.write(0, job.run_id, job.shard_id, tables)

    def computed_ahead(self, jobs: Iterable[Job], advance: Progress) -> Generator[tuple[Job, Tables]]:
        """Each job with its tables, while the thread computes the one after it; the jobs themselves are made here. Closed, it stops at the next progress."""
        closed = Event()

        def go_on(n: float) -> None:
            if closed.is_set():
                raise CancelledError
            advance(n)

        with ThreadPoolExecutor(1) as thread:
            waiting: deque[tuple[Job, Future[Tables]]] = deque()
            try:
                for job in jobs:
                    waiting.append((job, thread.submit(job.compute, self.worker, go_on)))
                    if len(waiting) > 1:
                        yield finished(*waiting.popleft())
                while waiting:
                    yield finished(*waiting.popleft())
            finally:
                closed.set()
                thread.shutdown(wait=False, cancel_futures=True)


def finished(job: Job, tables: Future[Tables]) -> tuple[Job, Tables]:
    return job, tables.result()

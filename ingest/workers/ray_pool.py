"""A pool of Ray actors, each with the model in memory: on the processors and GPUs of this machine, or of a cluster that shares a folder or a lake.

Each job goes to a free worker, so machines may differ and workers may join late. Ray restarts a dead worker and gives it its job again. When no job is left
to hand out, an idle worker also gets a job that another still computes, and the first to finish counts: a slow worker does not delay the end. A job that only
silent workers have (dead ones, and those that Ray has no room for) is given to an idle worker again. The loader takes each shard once, whichever worker
brings it.
"""

import math
import os
import time
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from ingest.model.models import load_model
from ingest.request import Request
from ingest.store.shards import Shard, Staging
from ingest.workers.pool import Job, Key, write_shards
from ingest.workers.worker import Advance, Worker
from schema.errors import AtlasError

POLL = 0.5
"""Seconds between two checks for finished jobs."""

RESTARTS = 100
"""Limit on the restarts of one worker: if it dies more often, the cause is the machine or the model."""

ANSWER = 0.2
"""Seconds that the workers have to report their progress."""

SILENT = 30.0
"""Seconds without a progress report after which a worker counts as silent."""


class RemoteWorker:
    """Code that runs in a Ray actor: a worker, and its progress, which can be queried while the worker computes."""

    def __init__(self, request: Request, staging: Staging, number: int, n_threads: int) -> None:
        self.worker = Worker(load_model(request.model, revision=request.revision, dtype=request.dtype, device=request.device))
        self.staging, self.number, self.n_threads = staging, number, n_threads
        self.done: dict[int, float] = {}

    def compute(self, job: Job) -> list[Shard]:
        # torch keeps this for each thread by itself, and Ray chooses the thread
        torch.set_num_threads(self.n_threads)
        return list(write_shards(self.staging, self.number, job.compute(self.worker, self.advance)))

    def advance(self, run_id: int, n: float) -> None:
        self.done[run_id] = self.done.get(run_id, 0.0) + n

    def progress(self) -> dict[int, float]:
        """Report how much work this worker has done on each run."""
        return dict(self.done)

    def pid(self) -> int:
        return os.getpid()


def threads_each(n_workers: int) -> int:
    """Divide this machine's processors among the workers, at least one for each."""
    return max(1, (os.cpu_count() or 1) // n_workers)


@dataclass
class Call:
    """A job that was given to a worker. worker: its number. since: when the job was given, by the monotonic clock."""

    worker: int
    job: Job
    since: float


class RayPool:
    """A pool of `n_workers` actors in the cluster at `address`; if `address` is None, in a cluster of this machine alone.

    staging: the place to which all actors write their shards.
    """

    local: Worker | None = None

    def __init__(self, request: Request, staging: Staging, n_workers: int, address: str | None) -> None:
        try:
            import ray
        except ImportError as error:
            raise AtlasError(f"several workers need Ray: pip install 'activation-atlas[ray]' ({error})") from error
        self.ray: Any = ray
        self.staging = staging
        cluster: dict[str, Any] = {"address": address} if address else {"include_dashboard": False}
        self.ray.init(log_to_driver=False, configure_logging=False, **cluster)
        n_threads = threads_each(n_workers) if address is None else 1
        needs = {"num_gpus": 1} if request.device.startswith("cuda") else {"num_cpus": n_threads}
        # apart, so that the count can be asked for while a shard is computed
        actor = self.ray.remote(max_restarts=RESTARTS, max_task_retries=-1, concurrency_groups={"compute": 1, "ask": 1}, **needs)(RemoteWorker)
        self.workers = [actor.remote(request, staging, i, n_threads) for i in range(n_workers)]
        self.calls: dict[Any, Call] = {}
        self.known: dict[int, dict[int, float]] = {i: {} for i in range(n_workers)}
        self.heard: dict[int, float] = {}

    def close(self) -> None:
        self.ray.shutdown()

    def shards(self, jobs: Iterable[Job], advance: Advance) -> Generator[Shard]:
        waiting, left = iter(jobs), set[tuple[Key, ...]]()
        before = self.progress()
        while True:
            for worker in self.idle_workers():
                job = next(waiting, None) or self.slowest(left)
                if job is None:
                    break
                left.add(job.keys)
                call = self.workers[worker].compute.options(concurrency_group="compute").remote(job)
                self.calls[call] = Call(worker, job, time.monotonic())
            if not left:
                return
            for call in self.ray.wait(list(self.calls), timeout=POLL)[0]:
                job, shards = self.calls.pop(call).job, self.fetch_shards(call)
                if job.keys in left:
                    left.remove(job.keys)
                    yield from shards
                else:
                    for shard in shards:
                        self.staging.discard(shard)
            now = self.progress()
            for i, done in now.items():
                for run_id, n in done.items():
                    # a worker that died counts from nothing again
                    advance(run_id, max(0.0, n - before[i].get(run_id, 0.0)))
            before = now

    def fetch_shards(self, call: Any) -> list[Shard]:
        """Fetch the shards that a call returns. Raises the error that the worker raised, and AtlasError if the worker died more often than RESTARTS."""
        try:
            return self.ray.get(call)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except self.ray.exceptions.RayError as error:
            raise AtlasError(f"a worker could not be kept alive: {str(error).splitlines()[0]}. What was loaded is kept: run the same command again.") from error

    def progress(self) -> dict[int, dict[int, float]]:
        """Ask each worker for its total work on each run, by worker number. A worker that does not answer (it is starting, or dead) keeps its last report."""
        asked = {worker.progress.options(concurrency_group="ask").remote(): i for i, worker in enumerate(self.workers)}
        for answer in self.ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER)[0]:
            with suppress(self.ray.exceptions.RayError):
                self.known[asked[answer]] = self.ray.get(answer)
                self.heard[asked[answer]] = time.monotonic()
        return dict(self.known)

    def idle_workers(self) -> list[int]:
        """List the workers that compute nothing."""
        busy = {call.worker for call in self.calls.values()}
        return [number for number in range(len(self.workers)) if number not in busy]

    def slowest(self, left: set[tuple[Key, ...]]) -> Job | None:
        """Choose a job to give out again: the oldest job in `left` that at most one worker computes, not counting silent workers; None if there is none."""
        given = [call for call in self.calls.values() if call.job.keys in left]
        computed = Counter(call.job.keys for call in given if time.monotonic() - self.heard.get(call.worker, -math.inf) < SILENT)
        alone = [call for call in given if computed[call.job.keys] <= 1]
        return min(alone, key=lambda call: call.since).job if alone else None

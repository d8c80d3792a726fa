"""Who computes the shards: this process alone, or workers on as many processors and machines as there are (ingest/ray_pool.py)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from ingest.shards import Shard, Staging
from ingest.worker import Progress, Worker


@dataclass(frozen=True)
class Job:
    """A shard to compute: by which method of Worker, and its arguments but the progress."""

    run_id: int
    shard_id: int
    method: Callable[..., dict[str, pa.Table]]
    arguments: Mapping[str, Any]

    def compute(self, worker: Worker, progress: Progress) -> dict[str, pa.Table]:
        return self.method(worker, progress, **self.arguments)


class Pool(Protocol):
    """`local`: the worker, where it is in this process."""

    @property
    def local(self) -> Worker | None: ...

    def shards(self, jobs: Iterable[Job], advance: Progress) -> Iterator[Shard]:
        """Every job's shard, complete on disk, each exactly once and in any order. advance: called with what has been done since."""


class Alone:
    """One job after the other, in this process."""

    def __init__(self, worker: Worker, staging: Staging) -> None:
        self.local: Worker | None = worker
        self.worker, self.staging = worker, staging

    def shards(self, jobs: Iterable[Job], advance: Progress) -> Iterator[Shard]:
        for job in jobs:
            yield self.staging.write(0, job.run_id, job.shard_id, job.compute(self.worker, advance))

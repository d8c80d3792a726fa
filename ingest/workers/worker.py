"""Who computes shards: a model in memory, and what is carried from one shard to the next. A worker never touches the database."""

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import pyarrow as pa

from ingest.model.models import Model
from ingest.workers.begun import ShardCheckpoint

Tables = dict[str, pa.Table]
"""What a shard holds, by the name of the table."""

Progress = Callable[[float], None]
"""Called with what has just been done, in the units of the run's progress bar."""

Advance = Callable[[int, float], None]
"""Progress of several runs: called with the run_id first."""

T = TypeVar("T")


class Worker:
    """model: what it computes with. begun: where it writes what it has read of a shard, None for nowhere. states: what the shards of each run share."""

    def __init__(self, model: Model, begun: ShardCheckpoint | None = None) -> None:
        self.model, self.begun = model, begun
        self.states: dict[int, Any] = {}

    def shared_state(self, run_id: int, make: Callable[[], T]) -> T:
        """Get what the shards of a run share, made by the first that asks."""
        if run_id not in self.states:
            self.states[run_id] = make()
        return self.states[run_id]

    def drop_all_but(self, run_ids: Collection[int]) -> None:
        """Forget what the shards of other runs shared."""
        self.states = {run_id: state for run_id, state in self.states.items() if run_id in run_ids}


def report_shares(compute: Callable[[Progress], T], progress: Progress, cost: float) -> T:
    """Compute something that says what share of itself it has just done, and report that as parts of `cost`, in the end all of it."""
    done = 0.0

    def report(share: float) -> None:
        nonlocal done
        done += share
        progress(share * cost)

    result = compute(report)
    progress((1 - done) * cost)
    return result

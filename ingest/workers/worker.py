"""A worker, which computes shards: a model in memory, and the state that is carried from one shard to the next. A worker never touches the database."""

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import pyarrow as pa

from ingest.model.models import Model
from ingest.workers.begun import ShardCheckpoint

Tables = dict[str, pa.Table]
"""Name of a table → the rows that a shard has for this table."""

Progress = Callable[[float], None]
"""Function that is called with the work just done, in the units of the run's progress bar."""

Advance = Callable[[int, float], None]
"""Progress function for several runs: the run_id is its first argument."""

T = TypeVar("T")


class Worker:
    """A model that computes shards. begun: checkpoint of the unfinished shard, or None. states: run_id → the state that the run's shards share."""

    def __init__(self, model: Model, begun: ShardCheckpoint | None = None) -> None:
        self.model, self.begun = model, begun
        self.states: dict[int, Any] = {}

    def shared_state(self, run_id: int, make: Callable[[], T]) -> T:
        """Return the state that the shards of a run share; the first call makes it."""
        if run_id not in self.states:
            self.states[run_id] = make()
        return self.states[run_id]

    def drop_all_but(self, run_ids: Collection[int]) -> None:
        """Forget the shared states of all runs but these."""
        self.states = {run_id: state for run_id, state in self.states.items() if run_id in run_ids}


def report_shares(compute: Callable[[Progress], T], progress: Progress, cost: float) -> T:
    """Run a computation that reports each share of its work once it is done. Pass each share of `cost` to `progress`, and at the end the rest of `cost`."""
    done = 0.0

    def report(share: float) -> None:
        nonlocal done
        done += share
        progress(share * cost)

    result = compute(report)
    progress((1 - done) * cost)
    return result

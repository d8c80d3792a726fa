"""Every key's triggers and statistics, recorded while all positions are read."""

from typing import Any

import numpy as np

from ingest.model.hooks import LayerRecord
from ingest.recorders.base import Batch
from ingest.recorders.keys import Add, CpuKeys
from ingest.recorders.rows import statistics_rows, trigger_rows
from ingest.recorders.torch_keys import TorchKeys, new_keys
from ingest.text.contexts import context_numbers
from ingest.workers.worker import Progress, Tables, Worker


class TriggerRecorder:
    """The statistics of one shard, and the triggers of it that are still among the k best of all that `keys` has seen.

    keys: go on from shard to shard, so a shard carries only triggers that beat the k-th best known.
    skip_first: positions at an index below it are read, and do not count. distinct: of positions whose last so many tokens are equal, a key and tail keep the
    best; 0 for all.
    """

    sites = frozenset({"coefficient"})
    held = ("first_position", "end", "n_added")

    def __init__(self, keys: CpuKeys | TorchKeys, corpus_id: int, skip_first: int = 0, distinct: int = 0) -> None:
        self.keys, self.corpus_id, self.skip_first, self.distinct = keys, corpus_id, skip_first, distinct
        self.first_position, self.end = np.iinfo(np.int64).max, -1
        self.n_added: dict[int, int] = {}
        self.sequence_ids: tuple[int, ...] = ()
        self.n_before = 0
        self.add: Add = no_batch
        keys.reset_statistics()

    def begin(self, batch: Batch) -> None:
        real = batch.position_ids[batch.position_ids >= 0]
        self.first_position, self.end = min(self.first_position, int(real.min())), max(self.end, int(real.max()) + 1)
        self.sequence_ids = tuple(s.sequence_id for s in batch.sequences)
        # of a batch that ran out of memory its parts leave out the layers that the whole had come to
        self.n_before = self.n_added.get(self.sequence_ids[0], 0)
        contexts = batch_contexts(batch, self.distinct) if self.distinct else None
        self.add = self.keys.batch(np.where(batch.indices < self.skip_first, -1, batch.position_ids), batch.indices, contexts)

    def take(self, layer: int, record: LayerRecord) -> None:
        if layer >= self.n_before:
            self.add(layer, record["coefficient"])
            self.n_added.update((i, layer + 1) for i in self.sequence_ids)

    def state(self) -> dict[str, Any]:
        assert isinstance(self.keys, CpuKeys), "what a GPU reduces is not written while it is read"
        return {**{name: getattr(self, name) for name in self.held}, "keys": {name: getattr(self.keys, name) for name in self.keys.held}}

    def restore(self, state: dict[str, Any]) -> None:
        vars(self.keys).update(state["keys"])
        vars(self).update({name: state[name] for name in self.held})

    def tables(self, _: Progress) -> Tables:
        triggers = trigger_rows(self.keys, self.corpus_id, self.first_position, self.end)
        return {"trigger": triggers, "neuron_statistics": statistics_rows(self.keys, self.corpus_id)}


def batch_contexts(batch: Batch, n: int) -> np.ndarray:
    """The number of the context of n tokens of each row, 0 where padded: [rows]."""
    found = np.zeros((len(batch.sequences), len(batch.position_ids) // len(batch.sequences)), np.int64)
    for row, sequence in zip(found, batch.sequences, strict=True):
        row[: len(sequence.token_ids)] = context_numbers(sequence.token_ids, n)
    return found.ravel()


def no_batch(*_: object) -> None:
    raise RuntimeError("a layer came before its batch")


def kept_keys(worker: Worker, run_id: int, k: int, is_distinct: bool) -> CpuKeys | TorchKeys:
    """The reductions that the shards of a sweep share."""
    return worker.kept(run_id, lambda: new_keys(worker.model, k, is_distinct))


def trigger_recorder(worker: Worker, run_id: int, k: int, corpus_id: int, skip_first: int, distinct: int) -> TriggerRecorder:
    return TriggerRecorder(kept_keys(worker, run_id, k, distinct > 0), corpus_id, skip_first, distinct)

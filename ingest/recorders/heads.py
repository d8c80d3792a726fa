"""Statistics of where every head looks, recorded while all positions are read."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from ingest.model.hooks import PROJECTED, LayerRecord
from ingest.model.models import Model
from ingest.recorders.attention_blocks import layer_sums, n_bytes
from ingest.recorders.attention_sums import N_OTHER, Places, in_bins, n_bins, places, uniform_sums
from ingest.recorders.base import Batch, ResumableRecorder
from ingest.recorders.plans import Basis, CostSample, Recording, Text, Work
from ingest.workers.worker import Progress, Tables, Worker

BY_DISTANCE = {"previous": N_OTHER + 1, "self": N_OTHER}
OF_ALL = {**BY_DISTANCE, "first": 0, "entropy": 3}
OF_REPEATED = {"duplicate": 1, "induction": 2}
"""Maps from a mean to its column of `sum_attention`: OF_ALL over all destinations, OF_REPEATED over those whose token came before."""

FIRST_MOVED = 4
"""Column of `sum_attention` that is also a mean over all destinations; its value under uniform attention differs by head."""


class HeadRecorder(ResumableRecorder):
    """Recorder of sums of attention over the destinations of a shard, by layer and head. context: the most tokens that a sequence may have."""

    sites = frozenset(PROJECTED)
    held = ("looked", "evenly", "moved_evenly", "n_destinations", "n_repeated", "n_added")

    def __init__(self, model: Model, context: int) -> None:
        width = N_OTHER + max(context, 2)
        self.model, self.context = model, context
        self.looked = np.zeros((model.n_layers, model.n_heads, width))
        self.evenly = np.zeros((model.n_layers, width))
        self.moved_evenly = np.zeros((model.n_layers, model.n_heads))
        self.n_destinations, self.n_repeated = np.zeros(model.n_layers, np.int64), np.zeros(model.n_layers, np.int64)
        self.n_added: dict[int, int] = {}
        self.sequence_ids: tuple[int, ...] = ()
        self.n_before = 0
        self.batch: tuple[Places, ...] = ()
        self.even: dict[int | None, np.ndarray] = {}

    def begin(self, batch: Batch) -> None:
        self.sequence_ids = tuple(s.sequence_id for s in batch.sequences)
        # of a batch that ran out of memory its parts leave out the layers that the whole had come to
        self.n_before = self.n_added.get(self.sequence_ids[0], 0)
        self.batch, self.even = tuple(places(s.token_ids) for s in batch.sequences), {}

    def take(self, layer: int, record: LayerRecord) -> None:
        if layer < self.n_before:
            return
        found, moved_evenly = (sums.cpu().numpy() for sums in layer_sums(self.model, layer, record, self.batch))
        width, window = found.shape[1], self.model.attention(layer).window(self.model.hf.config, layer)
        self.moved_evenly[layer] += moved_evenly
        self.looked[layer, :, :width] += found
        self.evenly[layer, :width] += self.uniform_batch_sums(window, width - N_OTHER)
        self.n_destinations[layer] += sum(there.n_destinations for there in self.batch)
        self.n_repeated[layer] += sum(there.n_repeated for there in self.batch)
        self.n_added.update((i, layer + 1) for i in self.sequence_ids)

    def uniform_batch_sums(self, window: int | None, seq: int) -> np.ndarray:
        """Sum `uniform_sums` over the batch; layers with the same window share the result."""
        if window not in self.even:
            self.even[window] = np.sum([uniform_sums(there, window, seq) for there in self.batch], axis=0)
        return self.even[window]

    def statistics(self) -> dict[str, np.ndarray]:
        """Compute the columns that `head_statistics` and `head_probe` share: one row for each layer and head, in that order."""
        n_heads = self.model.n_heads
        found = {**grain(self.model), "n_destinations": np.repeat(self.n_destinations, n_heads), "n_repeated": np.repeat(self.n_repeated, n_heads)}
        for columns, n in ((OF_ALL, "n_destinations"), (OF_REPEATED, "n_repeated")):
            for name, place in columns.items():
                found |= {name: mean(self.looked[:, :, place].ravel(), found[n])}
                found |= {f"{name}_uniform": mean(np.repeat(self.evenly[:, place], n_heads), found[n])}
        moved = {"first_moved": self.looked[:, :, FIRST_MOVED], "first_moved_uniform": self.moved_evenly}
        return found | {name: mean(sums.ravel(), found["n_destinations"]) for name, sums in moved.items()}

    def distances(self) -> dict[str, np.ndarray]:
        """Compute the columns of `attention_distance`, except the corpus: one row for each layer, head and bin of distances."""
        n, n_heads = n_bins(self.context), self.model.n_heads
        return {
            **{name: np.repeat(column, n) for name, column in grain(self.model).items()},
            "bin": np.tile(np.arange(n, dtype=np.int16), self.model.n_layers * n_heads),
            "weight": in_bins(self.looked[:, :, N_OTHER:], n).ravel(),
            "uniform": np.repeat(in_bins(self.evenly[:, N_OTHER:], n), n_heads, axis=0).ravel(),
            "n": np.repeat(self.n_destinations, n_heads * n),
        }


class CorpusHeadRecorder(HeadRecorder):
    """Recorder of the head statistics of a corpus."""

    def __init__(self, model: Model, context: int, corpus_id: int) -> None:
        super().__init__(model, context)
        self.corpus_id = corpus_id

    def tables(self, _: Progress) -> Tables:
        return {"head_statistics": self.rows(self.statistics()), "attention_distance": self.rows(self.distances())}

    def rows(self, columns: Mapping[str, np.ndarray]) -> pa.Table:
        return pa.table({"corpus_id": np.full(len(columns["layer"]), self.corpus_id, np.int32), **columns})


def grain(model: Model) -> dict[str, np.ndarray]:
    return {
        "layer": np.repeat(np.arange(model.n_layers, dtype=np.int16), model.n_heads),
        "head": np.tile(np.arange(model.n_heads, dtype=np.int16), model.n_layers),
    }


def mean(sums: np.ndarray, n: np.ndarray) -> pa.Array:
    """Divide the sums by n; null where n is 0."""
    return pa.array(sums / np.maximum(n, 1), mask=n == 0)


def head_recorder(worker: Worker, corpus_id: int, context: int) -> CorpusHeadRecorder:
    return CorpusHeadRecorder(worker.model, context, corpus_id)


class HeadStatistics(Work):
    """Plans and costs of the pass `head_statistics`."""

    def recording(self, basis: Basis, text: Text) -> Recording:
        request = basis.request
        settings = {**request.weights_settings(), "batch_size": request.batch_size, "shard_positions": request.shard_positions}
        return Recording(settings, lambda _: partial(head_recorder, corpus_id=text.corpus_id, context=request.context))

    def rows(self, sample: CostSample) -> dict[str, int]:
        if sample.seen is None:
            return {}
        heads = sample.model.n_layers * sample.model.n_heads
        return {"head_statistics": heads, "attention_distance": heads * n_bins(sample.request.context)}

    def seconds(self, sample: CostSample) -> float:
        return sample.recording_seconds(CorpusHeadRecorder(sample.model, sample.request.context, 0))

    def n_bytes(self, sample: CostSample) -> int:
        return n_bytes(sample.model, sample.request.context)

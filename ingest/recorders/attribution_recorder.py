"""Attributions of predictions, and the sources that heads look at, recorded while the sampled positions are read."""

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from torch import Tensor

from ingest.model.hooks import LayerRecord
from ingest.model.models import Model
from ingest.model.parts import mean_reader
from ingest.recorders.attribution import N_NEURONS, Places, attribution_tables
from ingest.recorders.base import Batch, ResumableRecorder
from ingest.recorders.loaded_rows import attributed_positions
from ingest.recorders.plans import Basis, CostSample, Recording, Text, Work
from ingest.recorders.reading import read_batch
from ingest.recorders.sources import N_SOURCES, Sources, sources
from ingest.timing import measure_seconds
from ingest.workers.worker import Progress, Tables, Worker
from schema.terms import PARTS, TARGETS


class AttributionRecorder(ResumableRecorder):
    """Recorder of attributions. It computes those of a forward pass as soon as the last layer is recorded, and then drops the states.

    mean: reader and constant of the vocabulary's mean.
    """

    sites = frozenset(("resid_pre", "resid_mid", "ffn_out", "resid_post", "coefficient", "ffn_scale", "gathered", "attn_scale", "context"))
    held = ("parts",)

    def __init__(self, model: Model, run_id: int, mean: tuple[Tensor, Tensor]) -> None:
        self.model, self.run_id, self.mean = model, run_id, mean
        self.parts: dict[int, Tables] = {}
        self.layers: list[LayerRecord] = []
        self.sources: list[Sources] = []
        self.batch: Batch | None = None

    def begin(self, batch: Batch) -> None:
        self.batch, self.layers, self.sources = batch, [], []

    def take(self, layer: int, record: LayerRecord) -> None:
        if self.batch is None:
            return
        self.layers.append(replace(record, context=None))
        self.sources.append(sources(self.model, layer, record["context"], by_sequence(self.batch), record["attn_scale"]))
        if layer == self.model.n_layers - 1:
            # by the first position: what ran out of memory at its very end comes again under the same
            self.parts[int(self.batch.position_ids[0])] = attribution_tables(self.model, self.layers, self.sources, places(self.batch), self.run_id, self.mean)
            self.layers, self.sources = [], []

    def tables(self, _: Progress) -> Tables:
        parts = list(self.parts.values())
        return {name: pa.concat_tables([part[name] for part in parts]) for name in parts[0]}


def by_sequence(batch: Batch) -> list[np.ndarray]:
    """Split the indices of a batch's sampled positions by sequence: one array for each of the batch's sequences."""
    first = batch.position_ids - batch.indices
    return [batch.indices[first == s.first_position_id] for s in batch.sequences]


def places(batch: Batch) -> Places:
    tokens = {s.first_position_id: s.token_ids for s in batch.sequences}
    token_ids = [tokens[first][i] for first, i in zip((batch.position_ids - batch.indices).tolist(), batch.indices.tolist(), strict=True)]
    return Places(batch.position_ids, batch.indices, np.array(token_ids, np.int64), batch.next_token_ids)


def attribution_recorder(worker: Worker, run_id: int) -> AttributionRecorder:
    return AttributionRecorder(worker.model, run_id, worker.shared_state(run_id, lambda: mean_reader(worker.model)))


class Attribution(Work):
    """Plans and costs of the pass `attribution`."""

    def recording(self, basis: Basis, text: Text) -> Recording:
        request = basis.request
        settings = {"trace": request.trace, "seed": request.seed, "neurons": N_NEURONS, "sources": N_SOURCES, "batch_size": request.batch_size}
        return Recording(
            {**request.weights_settings(), **settings},
            lambda run_id: partial(attribution_recorder, run_id=run_id),
            known=lambda run_id: attributed_positions(basis.con, but=run_id),
        )

    def rows(self, sample: CostSample) -> dict[str, int]:
        if sample.seen is None:
            return {}
        model = sample.model
        heads, n_neurons = model.n_layers * model.n_heads, model.n_layers * model.d_ffn
        others = len(PARTS) - 1
        at_position = {
            "attribution": len(TARGETS), "contribution": heads + others * model.n_layers, "neuron_contribution": min(N_NEURONS, n_neurons),
            "attention": N_SOURCES * heads, "head_activity": heads,
        }  # fmt: skip
        return {table: n * len(sample.seen.sample) for table, n in at_position.items()}

    def seconds(self, sample: CostSample) -> float:
        """Estimate the seconds that recording adds to the forward passes. One batch is timed, with a sampled position at the end of each sequence."""
        if sample.seen is None:
            return 0.0
        batch = sample.batch
        ends = np.array([s.first_position_id + len(s.token_ids) - 1 for s in batch])
        recorder = AttributionRecorder(sample.model, 0, mean_reader(sample.model))
        alone = measure_seconds(lambda: list(read_batch(sample.model, [], batch)))
        beside = measure_seconds(lambda: list(read_batch(sample.model, [(recorder, ends)], batch)))
        return max(0.0, beside - alone) / len(ends) * len(sample.seen.sample)

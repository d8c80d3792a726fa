"""The trace, recorded while the sampled positions are read."""

import numpy as np
import torch

from ingest.model.hooks import RECORDED, LayerRecord
from ingest.model.models import Model
from ingest.recorders.base import Batch, Holding
from ingest.recorders.traces import TracedStates, TraceSettings, join_states, trace_tables
from ingest.workers.worker import Progress, Tables, Worker
from schema.terms import SITES


class TraceRecorder(Holding):
    """Everything about the sampled positions of one shard; all states are held until the shard is done."""

    sites = frozenset(RECORDED)
    held = ("parts",)

    def __init__(self, model: Model, value_tops: np.ndarray, run_id: int, settings: TraceSettings) -> None:
        self.model, self.value_tops, self.run_id, self.settings = model, value_tops, run_id, settings
        self.parts: dict[int, TracedStates] = {}
        self.layers: list[LayerRecord] = []
        self.batch: Batch | None = None

    def begin(self, batch: Batch) -> None:
        self.batch, self.layers = batch, []

    def take(self, layer: int, record: LayerRecord) -> None:
        self.layers.append(record)
        if layer == self.model.n_layers - 1 and self.batch is not None:
            # by the first position: what ran out of memory at its very end comes again under the same
            self.parts[int(self.batch.position_ids[0])] = traced_states(self.layers, self.batch)
            self.layers = []

    def tables(self, progress: Progress) -> Tables:
        return trace_tables(self.model, join_states(list(self.parts.values())), self.value_tops, self.run_id, self.settings, progress)


def traced_states(layers: list[LayerRecord], batch: Batch) -> TracedStates:
    """What a forward pass gave at the rows of a batch."""
    return TracedStates(
        {site: torch.stack([record[site] for record in layers]) for site in SITES},
        torch.stack([record["coefficient"] for record in layers]),
        torch.stack([record["ffn_scale"] for record in layers]),
        batch.position_ids,
        batch.next_token_ids,
    )


def trace_recorder(worker: Worker, value_tops: np.ndarray, run_id: int, settings: TraceSettings) -> TraceRecorder:
    return TraceRecorder(worker.model, value_tops, run_id, settings)

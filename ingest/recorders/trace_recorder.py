"""The trace, recorded while the sampled positions are read."""

import numpy as np
import torch
from torch import Tensor

from ingest.model.hooks import RECORDED, LayerRecord
from ingest.model.models import Model
from ingest.recorders.base import Batch
from ingest.recorders.traces import TracedStates, TraceSettings, join_states, trace_tables
from ingest.workers.worker import Tables, Worker
from schema.terms import SITES


class TraceRecorder:
    """Everything about the positions of one shard that are in the sample; all states are held until the shard is done."""

    sites = frozenset(RECORDED)

    def __init__(self, model: Model, sample: np.ndarray, value_tops: np.ndarray, run_id: int, settings: TraceSettings) -> None:
        self.model, self.sample, self.value_tops, self.run_id, self.settings = model, sample, value_tops, run_id, settings
        self.parts: list[TracedStates] = []
        self.layers: list[LayerRecord] = []
        self.batch: Batch | None = None
        self.rows: Tensor | None = None

    def begin(self, batch: Batch) -> None:
        own = np.flatnonzero(np.isin(batch.position_ids, self.sample))
        self.rows = None if len(own) == len(batch.position_ids) else torch.from_numpy(own)
        self.batch, self.layers = batch.chosen(own), []

    def take(self, layer: int, record: LayerRecord) -> None:
        self.layers.append(record if self.rows is None else record.chosen(self.rows))
        if layer == self.model.n_layers - 1 and self.batch is not None:
            self.parts.append(traced_states(self.layers, self.batch))
            self.layers = []

    def tables(self) -> Tables:
        return trace_tables(self.model, join_states(self.parts), self.value_tops, self.run_id, self.settings)


def traced_states(layers: list[LayerRecord], batch: Batch) -> TracedStates:
    """What a forward pass gave at the rows of a batch."""
    return TracedStates(
        {site: torch.stack([record[site] for record in layers]) for site in SITES},
        torch.stack([record["coefficient"] for record in layers]),
        torch.stack([record["ffn_scale"] for record in layers]),
        batch.position_ids,
        batch.next_token_ids,
    )


def trace_recorder(worker: Worker, sample: np.ndarray, value_tops: np.ndarray, run_id: int, settings: TraceSettings) -> TraceRecorder:
    return TraceRecorder(worker.model, sample, value_tops, run_id, settings)

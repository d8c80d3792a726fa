"""The recorder of that pass."""

import numpy as np
import pyarrow as pa

from ingest.model.hooks import LayerRecord
from ingest.recorders.base import Batch, ResumableRecorder
from ingest.workers.worker import Progress, Tables, Worker


class LengthRecorder(ResumableRecorder):
    sites = frozenset({"resid_post"})
    held = ("parts",)

    def __init__(self, n_layers: int) -> None:
        self.n_layers = n_layers
        self.parts: list[pa.Table] = []
        self.pending: list[pa.Table] = []
        self.batch: Batch | None = None

    def begin(self, batch: Batch) -> None:
        # what is left of a pass that did not come to its end comes again
        self.pending, self.batch = [], batch

    def take(self, layer: int, record: LayerRecord) -> None:
        assert self.batch is not None
        real = self.batch.position_ids >= 0
        lengths = record["resid_post"].float().norm(dim=-1).numpy()[real]
        columns = {"position_id": self.batch.position_ids[real], "layer": np.full(real.sum(), layer, np.int16), "length": lengths}
        self.pending.append(pa.table(columns))
        if layer == self.n_layers - 1:
            self.parts += self.pending

    def tables(self, _: Progress) -> Tables:
        return {"state_length": pa.concat_tables(self.parts)}


def length_recorder(worker: Worker) -> LengthRecorder:
    return LengthRecorder(worker.model.n_layers)

"""The trace, recorded while the sampled positions are read."""

from functools import partial

import numpy as np
import torch

from ingest.model.hooks import RECORDED, LayerRecord
from ingest.model.models import Model
from ingest.recorders.base import Batch, ResumableRecorder
from ingest.recorders.lens import N_LENS_TOKENS
from ingest.recorders.loaded_rows import top_tokens, traced_positions
from ingest.recorders.plans import Basis, CostSample, Recording, Text, Work
from ingest.recorders.reading import read_batch
from ingest.recorders.traces import N_SUB_UPDATES, TracedStates, TraceSettings, join_states, trace_tables
from ingest.request import Request
from ingest.timing import measure_seconds
from ingest.workers.worker import Progress, Tables, Worker
from schema.terms import SITES, STREAM_SITES


class TraceRecorder(ResumableRecorder):
    """Recorder of the trace of one shard's sampled positions; all states stay in memory until the shard is done."""

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
    """Collect the states, coefficients and scales of a forward pass at the rows of a batch."""
    return TracedStates(
        {site: torch.stack([record[site] for record in layers]) for site in SITES},
        torch.stack([record["coefficient"] for record in layers]),
        torch.stack([record["ffn_scale"] for record in layers]),
        batch.position_ids,
        batch.next_token_ids,
    )


def trace_recorder(worker: Worker, value_tops: np.ndarray, run_id: int, settings: TraceSettings) -> TraceRecorder:
    return TraceRecorder(worker.model, value_tops, run_id, settings)


class Trace(Work):
    """Plans and costs of the pass `trace`."""

    def recording(self, basis: Basis, text: Text) -> Recording:
        request, kept, value_tops = basis.request, trace_settings(basis.request), top_tokens(basis.con, basis.model.n_layers)
        settings = {"trace": request.trace, "seed": request.seed, "vector_sites": list(kept.vector_sites), "coefficients": kept.n_coefficients}
        return Recording(
            {**request.weights_settings(), **settings, "batch_size": request.batch_size},
            lambda run_id: partial(trace_recorder, value_tops=value_tops, run_id=run_id, settings=kept),
            known=lambda run_id: traced_positions(basis.con, but=run_id),
        )

    def rows(self, sample: CostSample) -> dict[str, int]:
        if sample.seen is None:
            return {}
        kept, layers = trace_settings(sample.request), sample.model.n_layers
        at_layer = {
            "logit_lens": len(SITES), "logit_lens_token": len(SITES) * N_LENS_TOKENS, "coefficient": min(kept.n_coefficients, sample.model.d_ffn),
            "layer_activity": 1, "sub_update": 2 * N_SUB_UPDATES,
        }  # fmt: skip
        states = 1 + layers * (len(kept.vector_sites) - 1)
        at_position = {"trace": 1, "residual_state": states, **{table: n * layers for table, n in at_layer.items()}}
        return {table: n * len(sample.seen.sample) for table, n in at_position.items()}

    def seconds(self, sample: CostSample) -> float:
        """Estimate the time of everything computed at the sampled positions and, if no sweep reads the text, of the forward passes.

        The estimate assumes that one sequence is read for each sampled position.
        """
        if sample.seen is None:
            return 0.0
        batch = sample.batch
        ends = np.array([s.first_position_id + len(s.token_ids) - 1 for s in batch])
        value_tops = np.zeros((sample.model.n_layers, sample.model.d_ffn), np.int64)
        recorder = TraceRecorder(sample.model, value_tops, 0, trace_settings(sample.request))
        reading = measure_seconds(lambda: list(read_batch(sample.model, [(recorder, ends)], batch)))
        computing = measure_seconds(lambda: recorder.tables(lambda _: None))
        return (computing if sample.request.is_sweep_wanted else reading + computing) / len(ends) * len(sample.seen.sample)


def trace_settings(request: Request) -> TraceSettings:
    return TraceSettings((*STREAM_SITES, *sorted(request.options["vectors"])), request.options["coefficients"], request.seed)

"""Predictions at traced positions as sums of what each part wrote, and where heads looked there (Elhage et al. 2021)."""

from functools import partial
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Probe, Recording, RecordingPass, Text, flag
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.request import Request


class Attribution(RecordingPass):
    """A pass beside the trace and no part of it, so that a trace made before can be given it."""

    name = "attribution"
    after = ("weights",)
    reads = ("attribution",)
    needs_corpus = True
    reads_heads = True
    options = (flag("attribution", "Take apart the predictions at traced positions: logits by part, and rows of attention."),)

    def is_wanted(self, request: "Request") -> bool:
        return request.corpus is not None and bool(request.options["attribution"])

    def check(self, request: "Request") -> None:
        if not request.trace:
            raise AtlasError("--attribution needs --trace: it takes apart the predictions at the positions that are traced")

    def recording(self, basis: Basis, text: Text) -> Recording:
        from ingest.recorders.attribution import N_NEURONS
        from ingest.recorders.attribution_recorder import attribution_recorder
        from ingest.recorders.reads import attributed_positions
        from ingest.recorders.sources import N_SOURCES

        request = basis.request
        settings = {"trace": request.trace, "seed": request.seed, "neurons": N_NEURONS, "sources": N_SOURCES, "batch_size": request.batch_size}
        return Recording(
            {**request.weights_settings(), **settings},
            lambda run_id: partial(attribution_recorder, run_id=run_id),
            known=lambda run_id: attributed_positions(basis.con, but=run_id),
        )

    def rows(self, probe: Probe) -> dict[str, int]:
        from ingest.recorders.attribution import N_NEURONS
        from ingest.recorders.sources import N_SOURCES
        from schema.terms import PARTS, TARGETS

        if probe.seen is None:
            return {}
        model = probe.model
        heads, n_neurons = model.n_layers * model.n_heads, model.n_layers * model.d_ffn
        others = len(PARTS) - 1
        at_position = {
            "attribution": len(TARGETS), "contribution": heads + others * model.n_layers, "neuron_contribution": min(N_NEURONS, n_neurons),
            "attention": N_SOURCES * heads, "head_activity": heads,
        }  # fmt: skip
        return {table: n * len(probe.seen.sample) for table, n in at_position.items()}

    def seconds(self, probe: Probe) -> float:
        """What a forward pass takes longer for a sampled position at the end of each of its sequences."""
        import numpy as np

        from ingest.model.parts import mean_reader
        from ingest.recorders.attribution_recorder import AttributionRecorder
        from ingest.recorders.reading import read_batch
        from ingest.timing import timed

        if probe.seen is None:
            return 0.0
        batch = probe.batch
        sample = np.array([s.first_position_id + len(s.token_ids) - 1 for s in batch])
        recorder = AttributionRecorder(probe.model, 0, mean_reader(probe.model))
        alone = timed(lambda: list(read_batch(probe.model, [], batch)))
        beside = timed(lambda: list(read_batch(probe.model, [(recorder, sample)], batch)))
        return max(0.0, beside - alone) / len(sample) * len(probe.seen.sample)


PASS = Attribution()

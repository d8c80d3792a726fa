"""Sampled positions: everything about them is stored (Geva et al. 2021, section 5, and 2022, sections 3 to 5)."""

from functools import partial
from typing import TYPE_CHECKING

import click

from ingest.passes.base import Basis, Probe, Recording, RecordingPass, Text
from ingest.passes.sweep import PASS as SWEEP
from schema.terms import SITES, STREAM_SITES

if TYPE_CHECKING:
    from ingest.recorders.traces import TraceSettings
    from ingest.request import Request

UPDATES = tuple(site for site in SITES if site not in STREAM_SITES)


class Trace(RecordingPass):
    name = "trace"
    after = ("weights",)
    reads = ("neuron", "trace")
    needs_corpus = True
    options = (
        click.Option(["--vectors"], type=click.Choice(UPDATES), multiple=True, help="Keep these vectors of traced positions too."),
        click.Option(
            ["--coefficients"], type=click.IntRange(1), default=100, show_default=True, help="Largest coefficients kept of each traced position and layer."
        ),
    )

    def is_wanted(self, request: "Request") -> bool:
        return request.corpus is not None and request.trace > 0

    def recording(self, basis: Basis, text: Text) -> Recording:
        from ingest.recorders.reads import top_tokens, traced_positions
        from ingest.recorders.trace_recorder import trace_recorder

        request, kept, value_tops = basis.request, trace_settings(basis.request), top_tokens(basis.con, basis.model.n_layers)
        settings = {"trace": request.trace, "seed": request.seed, "vector_sites": list(kept.vector_sites), "coefficients": kept.n_coefficients}
        return Recording(
            {**request.weights_settings(), **settings, "batch_size": request.batch_size},
            lambda run_id: partial(trace_recorder, value_tops=value_tops, run_id=run_id, settings=kept),
            known=lambda run_id: traced_positions(basis.con, but=run_id),
        )

    def rows(self, probe: Probe) -> dict[str, int]:
        from ingest.recorders.lens import N_LENS_TOKENS
        from ingest.recorders.traces import N_SUB_UPDATES

        if probe.seen is None:
            return {}
        kept, layers = trace_settings(probe.request), probe.model.n_layers
        at_layer = {
            "logit_lens": len(SITES), "logit_lens_token": len(SITES) * N_LENS_TOKENS, "coefficient": min(kept.n_coefficients, probe.model.d_ffn),
            "layer_activity": 1, "sub_update": 2 * N_SUB_UPDATES,
        }  # fmt: skip
        states = 1 + layers * (len(kept.vector_sites) - 1)
        at_position = {"trace": 1, "residual_state": states, **{table: n * layers for table, n in at_layer.items()}}
        return {table: n * len(probe.seen.sample) for table, n in at_position.items()}

    def seconds(self, probe: Probe) -> float:
        """Everything computed of the positions, and where no sweep reads them, one forward pass for the eighth of a batch."""
        import numpy as np

        from ingest.recorders.reading import read_batch
        from ingest.recorders.trace_recorder import TraceRecorder
        from ingest.timing import timed

        if probe.seen is None:
            return 0.0
        batch = probe.batch
        sample = np.array([s.first_position_id + len(s.token_ids) - 1 for s in batch])
        value_tops = np.zeros((probe.model.n_layers, probe.model.d_ffn), np.int64)
        recorder = TraceRecorder(probe.model, value_tops, 0, trace_settings(probe.request))
        reading = timed(lambda: list(read_batch(probe.model, [(recorder, sample)], batch)))
        computing = timed(lambda: recorder.tables(lambda _: None))
        return (computing if SWEEP.is_wanted(probe.request) else reading + computing) / len(sample) * len(probe.seen.sample)


def trace_settings(request: "Request") -> "TraceSettings":
    from ingest.recorders.traces import TraceSettings

    return TraceSettings((*STREAM_SITES, *sorted(request.options["vectors"])), request.options["coefficients"], request.seed)


PASS = Trace()

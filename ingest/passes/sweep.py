"""Every position: each key's exact top-k triggers of both tails, and its statistics (Geva et al. 2021, section 3)."""

from functools import partial
from typing import TYPE_CHECKING

import click

from ingest.passes.base import Basis, Probe, Recording, RecordingPass, Text
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.request import Request
    from ingest.workers.worker import Worker

MAX_RANK = 2**15 - 1
"""What the column trigger.rank holds."""


class Sweep(RecordingPass):
    name = "sweep"
    after = ("weights",)
    is_repeatable = False
    options = (
        click.Option(["--triggers"], type=click.IntRange(0, 2**31 - 1), default=50, show_default=True, help="Triggers kept of each key and tail; 0: no sweep."),
    )

    def is_wanted(self, request: "Request") -> bool:
        return request.corpus is not None and request.options["triggers"] > 0

    def recording(self, basis: Basis, text: Text) -> Recording:
        from ingest.recorders.reads import known_triggers
        from ingest.recorders.triggers import kept_keys, trigger_recorder

        request, k = basis.request, kept_triggers(basis.request, text.seen.n_positions)

        def resume(run_id: int, worker: "Worker") -> None:
            kept_keys(worker, run_id, k).seed(*known_triggers(basis.con, text.corpus_id, basis.model.n_layers, basis.model.d_ffn, k))

        settings = {"triggers": request.options["triggers"], "batch_size": request.batch_size, "shard_positions": request.shard_positions}
        return Recording(
            {**request.weights_settings(), **settings},
            lambda run_id: partial(trigger_recorder, run_id=run_id, k=k, corpus_id=text.corpus_id),
            resume=resume,
        )

    def rows(self, probe: Probe) -> dict[str, int]:
        neurons = probe.model.n_layers * probe.model.d_ffn
        if probe.seen is None:
            return {}
        return {"neuron_statistics": neurons, "trigger": 2 * neurons * kept_triggers(probe.request, probe.seen.n_positions)}

    def seconds(self, probe: Probe) -> float:
        """By the last of up to three batches, when the first filling of the top-k is over."""
        from ingest.recorders.reading import batches, n_tokens, read_batch
        from ingest.recorders.torch_keys import new_keys
        from ingest.recorders.triggers import TriggerRecorder
        from ingest.timing import timed

        if probe.seen is None:
            return 0.0
        recorder, each = TriggerRecorder(new_keys(probe.model, kept_triggers(probe.request, probe.seen.n_positions)), 0), 0.0
        for batch in batches(probe.sequences, probe.request.batch_size):
            each = timed(partial(list, read_batch(probe.model, [(recorder, None)], batch))) / sum(map(n_tokens, batch))
        return each * probe.seen.n_positions


def kept_triggers(request: "Request", n_positions: int) -> int:
    """k of the sweep over a corpus of so many positions: no key has more triggers. Raises AtlasError for more than the table has ranks."""
    asked: int = request.options["triggers"]
    k = min(asked, n_positions)
    if k > MAX_RANK:
        raise AtlasError(f"--triggers {asked}: this corpus has {n_positions:,} positions, and of each key at most {MAX_RANK:,} triggers are kept")
    return k


PASS = Sweep()

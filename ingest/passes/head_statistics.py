"""Every position: what each attention head looks at, and how far back (Elhage et al. 2021; Olsson et al. 2022)."""

from functools import partial
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Probe, Recording, RecordingPass, Text, flag
from ingest.passes.sweep import PASS as SWEEP

if TYPE_CHECKING:
    from ingest.request import Request


class HeadStatistics(RecordingPass):
    name = "head_statistics"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    reads_heads = True
    options = (flag("head-statistics", "Record what each attention head looks at over the corpus, while it is read."),)

    def is_wanted(self, request: "Request") -> bool:
        return request.corpus is not None and bool(request.options["head_statistics"])

    def recording(self, basis: Basis, text: Text) -> Recording:
        from ingest.recorders.heads import head_recorder

        request = basis.request
        settings = {**request.weights_settings(), "batch_size": request.batch_size, "shard_positions": request.shard_positions}
        return Recording(settings, lambda _: partial(head_recorder, corpus_id=text.corpus_id, context=request.context))

    def rows(self, probe: Probe) -> dict[str, int]:
        from ingest.recorders.attention_sums import n_bins

        if probe.seen is None:
            return {}
        heads = probe.model.n_layers * probe.model.n_heads
        return {"head_statistics": heads, "attention_distance": heads * n_bins(probe.request.context)}

    def seconds(self, probe: Probe) -> float:
        """What it adds to the forward passes of a sweep, or all of them where no sweep reads the text."""
        from ingest.recorders.heads import CorpusHeadRecorder
        from ingest.recorders.reading import n_tokens, read_batch
        from ingest.timing import fastest

        if probe.seen is None:
            return 0.0
        batch = probe.batch
        recorder = CorpusHeadRecorder(probe.model, probe.request.context, 0)

        def reading(*recorders: CorpusHeadRecorder) -> float:
            return fastest(lambda: list(read_batch(probe.model, [(each, None) for each in recorders], batch)))

        seconds = reading(recorder) - (reading() if SWEEP.is_wanted(probe.request) else 0.0)
        return max(seconds, 0.0) / sum(map(n_tokens, batch)) * probe.seen.n_positions

    def n_bytes(self, probe: Probe) -> int:
        from ingest.recorders.attention_blocks import n_bytes

        return n_bytes(probe.model, probe.request.context)


PASS = HeadStatistics()

"""A pass of another distribution: it rides on the reading of every position, beside the sweep or alone."""

from typing import TYPE_CHECKING

from ingest.passes.base import Basis, CostSample, Recording, RecordingPass, Text, flag

if TYPE_CHECKING:
    from ingest.request import Request


class StateLength(RecordingPass):
    name = "state_length"
    after = ("weights",)
    needs_corpus = True
    options = (flag("state-length", "Record how long the state of every position is."),)

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["state_length"])

    def recording(self, basis: Basis, text: Text) -> Recording:
        from tests.ingest.lengths.recorder import length_recorder

        return Recording(basis.request.weights_settings(), lambda run_id: length_recorder)

    def rows(self, sample: CostSample) -> dict[str, int]:
        return {"state_length": sample.model.n_layers * sample.seen.n_positions if sample.seen else 0}

    def seconds(self, sample: CostSample) -> float:
        from ingest.recorders.reading import read_batch
        from ingest.timing import measure_seconds
        from tests.ingest.lengths.recorder import LengthRecorder

        batch = sample.batch
        seconds = measure_seconds(lambda: list(read_batch(sample.model, [(LengthRecorder(sample.model.n_layers), None)], batch)))
        each = seconds / sum(len(s.token_ids) for s in batch)
        return each * sample.seen.n_positions if sample.seen else 0.0


PASS = StateLength()

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

    def rows(self, probe: CostSample) -> dict[str, int]:
        return {"state_length": probe.model.n_layers * probe.seen.n_positions if probe.seen else 0}

    def seconds(self, probe: CostSample) -> float:
        from ingest.recorders.reading import read_batch
        from ingest.timing import measure_seconds
        from tests.ingest.lengths.recorder import LengthRecorder

        batch = probe.batch
        seconds = measure_seconds(lambda: list(read_batch(probe.model, [(LengthRecorder(probe.model.n_layers), None)], batch)))
        each = seconds / sum(len(s.token_ids) for s in batch)
        return each * probe.seen.n_positions if probe.seen else 0.0


PASS = StateLength()

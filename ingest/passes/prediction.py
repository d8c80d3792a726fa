"""Every position: the model's own prediction of what follows, by its output head on the last state."""

from functools import partial
from typing import TYPE_CHECKING

import click

from ingest.passes.base import Basis, Probe, Recording, RecordingPass, Text
from ingest.passes.sweep import PASS as SWEEP

if TYPE_CHECKING:
    from ingest.request import Request


class Prediction(RecordingPass):
    name = "prediction"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    options = (
        click.Option(
            ["--prediction/--no-prediction"], default=None, help="Keep the model's prediction at every position of the corpus.  [default: where it is swept]"
        ),
    )

    def is_wanted(self, request: "Request") -> bool:
        asked: bool | None = request.options["prediction"]
        return request.corpus is not None and (SWEEP.is_wanted(request) if asked is None else asked)

    def recording(self, basis: Basis, text: Text) -> Recording:
        from ingest.recorders.predictions import prediction_recorder

        request = basis.request
        settings = {**request.weights_settings(), "batch_size": request.batch_size, "shard_positions": request.shard_positions}
        return Recording(settings, lambda run_id: partial(prediction_recorder, run_id=run_id))

    def rows(self, probe: Probe) -> dict[str, int]:
        return {"position_prediction": probe.seen.n_positions} if probe.seen else {}

    def seconds(self, probe: Probe) -> float:
        """What it adds to the forward passes of a sweep, or all of them where no sweep reads the text."""
        from ingest.recorders.predictions import PredictionRecorder, word_marks
        from ingest.recorders.reading import n_tokens, read_batch
        from ingest.timing import fastest

        if probe.seen is None:
            return 0.0
        batch = probe.batch
        recorder = PredictionRecorder(probe.model, word_marks(probe.model))

        def reading(*recorders: PredictionRecorder) -> float:
            return fastest(lambda: list(read_batch(probe.model, [(each, None) for each in recorders], batch)))

        seconds = reading(recorder) - (reading() if SWEEP.is_wanted(probe.request) else 0.0)
        return max(seconds, 0.0) / sum(map(n_tokens, batch)) * probe.seen.n_positions

    def n_bytes(self, probe: Probe) -> int:
        """The logits of some rows, and on a GPU their probabilities and what is made of them."""
        from ingest.recorders.predictions import ROWS

        return ROWS * probe.model.d_vocab * 4 * (1 if probe.model.device.type == "cpu" else 4)


PASS = Prediction()

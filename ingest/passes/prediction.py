"""The output head's prediction at every position: the probability of the token that follows, and the most probable token."""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import RecordingPass

if TYPE_CHECKING:
    from ingest.request import Request


class Prediction(RecordingPass):
    name = "prediction"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    options = (
        click.Option(
            ["--prediction/--no-prediction"],
            default=None,
            help="Store the model's prediction at every position of the corpus.  [default: if the corpus is swept]",
        ),
    )
    work = "ingest.recorders.predictions:Prediction"

    def is_wanted(self, request: "Request") -> bool:
        asked: bool | None = request.options["prediction"]
        return request.corpus is not None and (request.is_sweep_wanted if asked is None else asked)


PASS = Prediction()

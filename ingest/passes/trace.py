"""States, logit lens, coefficients and sub-updates at a sample of positions (Geva et al. 2021, section 5, and 2022, sections 3 to 5).

The sample is drawn by a hash of seed, document and place in the document, so it does not depend on the order of the documents.
"""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import RecordingPass
from schema.terms import SITES, STREAM_SITES

if TYPE_CHECKING:
    from ingest.request import Request

UPDATES = tuple(site for site in SITES if site not in STREAM_SITES)


class Trace(RecordingPass):
    name = "trace"
    after = ("weights",)
    reads = ("neuron", "trace")
    needs_corpus = True
    options = (
        click.Option(["--vectors"], type=click.Choice(UPDATES), multiple=True, help="Store these vectors of traced positions too."),
        click.Option(
            ["--coefficients"], type=click.IntRange(1), default=100, show_default=True, help="Largest coefficients stored for each traced position and layer."
        ),
    )
    work = "ingest.recorders.trace_recorder:Trace"

    def is_wanted(self, request: "Request") -> bool:
        return request.corpus is not None and request.trace > 0


PASS = Trace()

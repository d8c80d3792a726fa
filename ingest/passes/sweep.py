"""Exact k largest and k smallest coefficients of each key over a corpus, with their moments and a histogram (Geva et al. 2021, section 3).

The first positions of each sequence are read, but do not count (--skip-first).
"""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import RecordingPass
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.request import Request


class Sweep(RecordingPass):
    name = "sweep"
    after = ("weights",)
    is_repeatable = False
    options = (
        click.Option(
            ["--triggers"], type=click.IntRange(0, 2**31 - 1), default=50, show_default=True, help="Triggers stored for each key and tail; 0: no sweep."
        ),
        click.Option(
            ["--skip-first"],
            type=click.IntRange(0, 2**31 - 1),
            help="Positions at the start of each sequence that are read, but enter no triggers or statistics.  "
            "[default: as the corpus was swept before, else 1; with --paper 0]",
        ),
        click.Option(
            ["--distinct"],
            type=click.IntRange(0, 2**31 - 1),
            help="Of positions with this many equal last tokens, keep only the best in each list of triggers; 0: keep all.  "
            "[default: as the corpus was swept before, else 0]",
        ),
    )
    work = "ingest.recorders.triggers:Sweep"

    def is_wanted(self, request: "Request") -> bool:
        return request.is_sweep_wanted

    def check(self, request: "Request") -> None:
        skip_first = request.options["skip_first"] or 0
        if skip_first >= request.context:
            raise AtlasError(
                f"--skip-first {skip_first} leaves out whole sequences of --context {request.context}; give a smaller --skip-first, "
                "or --triggers 0 for no sweep"
            )


PASS = Sweep()

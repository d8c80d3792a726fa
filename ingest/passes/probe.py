"""Linear probes of words' labels in each layer, compared with control labels, an untrained model and baselines without states (Hewitt and Liang 2019).

One shard per task and place of the stream.
"""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import PlannedPass
from schema.terms import PROBE_TASKS

if TYPE_CHECKING:
    from ingest.request import Request


class LinearProbe(PlannedPass):
    name = "probe"
    after = ("weights", "word")
    reads = ("word", "position", "sequence", "document")
    needs_corpus = True
    options = (
        click.Option(["--probe"], type=click.Choice(PROBE_TASKS), multiple=True, help="Read this label of the words from states, by linear probes."),
        click.Option(["--probe-rank"], type=click.IntRange(min=1), metavar="N", help="Let each probe read at most N directions of a state."),
        click.Option(
            ["--probe-layers"], metavar="LAYERS", default="all", show_default=True, help="Layers whose states the probes read: numbers such as 0,5,9."
        ),
    )
    work = "ingest.recorders.probe_rows:LinearProbe"

    def check(self, request: "Request") -> None:
        from ingest.text.probed_words import chosen_layers

        chosen_layers(request.options["probe_layers"], None)


PASS = LinearProbe()

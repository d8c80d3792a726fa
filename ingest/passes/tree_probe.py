"""Structural probes of parse trees in each layer, compared with a chain of neighbouring words and an untrained model (Hewitt and Manning 2019).

One shard per place of the stream and target.
"""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import PlannedPass, flag

if TYPE_CHECKING:
    from ingest.request import Request


class TreeProbe(PlannedPass):
    name = "tree_probe"
    after = ("weights", "word")
    reads = ("word", "position", "sequence", "document")
    needs_corpus = True
    options = (
        flag("tree-probe", "Look for the parse trees of the words' sentences in the states of --probe-layers, by structural probes."),
        click.Option(
            ["--tree-ranks"], metavar="RANKS", default="64", show_default=True, help="Dimensions of the structural probes: numbers such as 1,4,16,64."
        ),
    )
    work = "ingest.recorders.tree_rows:TreeProbe"

    def check(self, request: "Request") -> None:
        from ingest.text.probed_words import chosen_layers, chosen_ranks

        chosen_layers(request.options["probe_layers"], None)
        chosen_ranks(request.options["tree_ranks"], None)


PASS = TreeProbe()

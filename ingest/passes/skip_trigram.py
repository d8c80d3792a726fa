"""Skip-trigrams of a layer's heads: the tokens that look at each token, the tokens that it promotes, and the largest triples (Elhage et al. 2021).

The listed destinations and outs, and all tokens of the triples, are frequent in the atlas's text. One run per layer, one shard per head.
"""

import click

from ingest.passes.base import PlannedPass


class SkipTrigram(PlannedPass):
    """Pass that uses only the token counts of a text, to leave out rare tokens. The model has not learned what follows them, so they would lead every list."""

    name = "skip_trigram"
    after = ("sweep", "head_statistics")
    reads = ("position",)
    reads_heads = True
    options = (
        click.Option(
            ["--skip-trigram"],
            type=click.IntRange(0),
            multiple=True,
            metavar="LAYER",
            help="Read the skip-trigrams of a layer's heads; 0 is the layer that reads tokens themselves. May be given for several layers.",
        ),
        click.Option(
            ["--skip-trigram-seen"],
            type=click.IntRange(0),
            default=10,
            show_default=True,
            metavar="N",
            help="List only tokens that occur at least N times in the atlas's text; 0: all tokens.",
        ),
    )
    work = "ingest.recorders.skip_trigrams:SkipTrigram"


PASS = SkipTrigram()

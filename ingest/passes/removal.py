"""Triggers read again without one token of their prefix (Geva et al. 2021, figure 3); one shard per layer."""

import click

from ingest.passes.base import PlannedPass, flag


class Removal(PlannedPass):
    name = "removal"
    after = ("sweep",)
    reads = ("trigger", "position", "sequence", "removal")
    needs_corpus = True
    options = (
        flag("removal", "Read triggers again without their first, their last or a random token (part of --paper)."),
        click.Option(["--paper-keys"], type=click.IntRange(1), default=100, show_default=True, help="Keys of each layer whose triggers --paper reads again."),
    )
    work = "ingest.recorders.removal:Removal"


PASS = Removal()

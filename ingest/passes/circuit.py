"""Circuits in the weights: what each head copies, looks for, reads and writes, and which heads and which neurons read each other; one shard per layer."""

from ingest.passes.base import PlannedPass, flag


class Circuit(PlannedPass):
    name = "circuit"
    after = ("weights", "head_statistics")
    options = (flag("circuit", "Read circuits in the weights: what each head copies and looks for, and which heads and neurons read each other."),)
    is_repeatable = False
    reads_heads = True
    work = "ingest.recorders.circuits:Circuit"


PASS = Circuit()

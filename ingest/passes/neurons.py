"""Passes over keys and values: their weights, and what Geva et al. 2021 and 2022 compute beyond sweep and trace."""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import PlannedPass, flag
from schema.registry import key_by_name

if TYPE_CHECKING:
    from ingest.request import Request


class Weights(PlannedPass):
    """Norms and cosines of every neuron, the tokens that its value promotes and suppresses, and its nearest values; one shard per layer."""

    name = "weights"
    is_repeatable = False
    work = "ingest.recorders.values:Weights"

    def is_wanted(self, request: "Request") -> bool:
        return True


class Map(PlannedPass):
    """Values, and states of traced positions, placed in two dimensions; one run of one shard per layout."""

    name = "map"
    after = ("weights", "trace")
    reads = ("value_neighbour", "trace", "residual_state")
    options = (flag("map", "Place the values, and the traced states, in two dimensions for the map."),)
    work = "ingest.recorders.map_points:Map"


class ValueCluster(PlannedPass):
    """Clusters of all values, by their directions and by their scores (Geva et al. 2022, section 5); one shard."""

    name = "value_cluster"
    after = ("weights", "trace")
    reads = ("value_cluster",)
    options = (flag("value-cluster", "Cluster the values by their directions and by their scores (part of --paper)."),)
    work = "ingest.recorders.clusters:ValueCluster"


class NextTokenRank(PlannedPass):
    """Rank that each value gives to the token that follows its key's top trigger (Geva et al. 2021, figure 5); one shard per layer."""

    name = "next_token_rank"
    after = ("sweep",)
    reads = ("trigger", "position", "sequence", "next_token_rank")
    needs_corpus = True
    options = (flag("next-token-rank", "Rank the token after each key's top trigger among those its value promotes (part of --paper)."),)
    work = "ingest.recorders.next_token_rank:NextTokenRank"


class Removal(PlannedPass):
    """Triggers read again without one token of their prefix (Geva et al. 2021, figure 3); one shard per layer."""

    name = "removal"
    after = ("sweep",)
    reads = ("trigger", "position", "sequence", "removal")
    needs_corpus = True
    options = (
        flag("removal", "Read triggers again without their first, their last or a random token (part of --paper)."),
        click.Option(["--paper-keys"], type=click.IntRange(1), default=100, show_default=True, help="Keys of each layer whose triggers --paper reads again."),
    )
    work = "ingest.recorders.removal:Removal"


class ControlToken(PlannedPass):
    """Tokens that random vectors and whole FFN updates promote, as controls for the values (Geva et al. 2022, section 4); one shard per layer."""

    name = "control_token"
    after = ("trace",)
    reads = ("trace", "residual_state", "position", "control_token")
    options = (flag("control-token", "Project random vectors and whole FFN updates, which values are compared with (part of --paper)."),)
    work = "ingest.recorders.controls:ControlToken"


PASSES = key_by_name(Weights(), Map(), ValueCluster(), NextTokenRank(), Removal(), ControlToken())

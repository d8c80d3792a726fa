"""Norms and cosines of every neuron, the tokens that its value promotes and suppresses, and its nearest values; one shard per layer."""

from typing import TYPE_CHECKING

from ingest.passes.base import PlannedPass

if TYPE_CHECKING:
    from ingest.request import Request


class Weights(PlannedPass):
    name = "weights"
    is_repeatable = False
    work = "ingest.recorders.values:Weights"

    def is_wanted(self, request: "Request") -> bool:
        return True


PASS = Weights()

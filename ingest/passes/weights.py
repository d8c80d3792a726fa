"""What the weights alone tell of every neuron: one shard a layer."""

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

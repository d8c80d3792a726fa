"""What the weights alone tell of every neuron: one shard a layer."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Plan, PlannedPass, Probe

if TYPE_CHECKING:
    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker


class Weights(PlannedPass):
    name = "weights"
    is_repeatable = False

    def is_wanted(self, request: "Request") -> bool:
        return True

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.workers.pool import job

        def jobs(run_id: int, layers: list[int]) -> "Iterable[Job]":
            return (job(run_id, layer, compute, run_id=run_id, layer=layer) for layer in layers)

        yield Plan(basis.request.weights_settings(), [1] * basis.model.n_layers, "layers", jobs)

    def rows(self, probe: Probe) -> dict[str, int]:
        from ingest.recorders.values import N_NEIGHBOURS, N_TOKENS

        neurons = probe.model.n_layers * probe.model.d_ffn
        return {"neuron": neurons, "value_token": 2 * N_TOKENS * neurons, "value_neighbour": N_NEIGHBOURS * neurons}

    def seconds(self, probe: Probe) -> float:
        from ingest.recorders.values import all_unit_values, weight_tables
        from ingest.timing import timed

        units: list = []
        return timed(lambda: units.extend(all_unit_values(probe.model))) + probe.model.n_layers * timed(lambda: weight_tables(probe.model, 0, units))


def compute(worker: "Worker", progress: "Progress", *, run_id: int, layer: int) -> "Tables":
    from ingest.recorders.values import all_unit_values, weight_tables

    tables = weight_tables(worker.model, layer, worker.kept(run_id, lambda: all_unit_values(worker.model)))
    progress(1)
    return tables


PASS = Weights()

"""Clusters of all values, in both spaces (Geva et al. 2022, section 5): one shard."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, flag

if TYPE_CHECKING:
    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

LINKED = 1024
"""Values that a dry run clusters."""


class ValueCluster(PlannedPass):
    name = "value_cluster"
    after = ("weights", "trace")
    reads = ("value_cluster",)
    options = (flag("value-cluster", "Cluster the values by their directions and by their scores (part of --paper)."),)

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["value_cluster"])

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.recorders.clusters import n_blocks, n_clusters
        from ingest.workers.pool import job

        model, seed = basis.model, basis.request.seed
        n_values = model.n_layers * model.d_ffn
        settings = {**basis.request.weights_settings(), "seed": seed, "n_clusters": n_clusters(n_values), "cluster_blocks": n_blocks(n_values)}

        def jobs(run_id: int, shards: list[int]) -> "Iterable[Job]":
            is_there = basis.con.execute("SELECT count(*) FROM value_cluster").fetchall() != [(0,)]
            return (job(run_id, i, compute, seed=seed, cost=model.n_layers, is_there=is_there) for i in shards)

        yield Plan(settings, [model.n_layers], "layers", jobs)

    def rows(self, probe: Probe) -> dict[str, int]:
        from schema.terms import CLUSTER_SPACES

        return {"value_cluster": probe.model.n_layers * probe.model.d_ffn * len(CLUSTER_SPACES)}

    def seconds(self, probe: Probe) -> float:
        from ingest.recorders.clusters import complete_linkage, n_blocks, unit
        from ingest.timing import fastest
        from schema.terms import CLUSTER_SPACES

        linked, n_values = unit(probe.model.values(0)[:LINKED].double().cpu().numpy()), probe.model.n_layers * probe.model.d_ffn
        pair = fastest(lambda: complete_linkage(linked, len(linked) // 2)) / len(linked) ** 2
        return pair * n_values**2 / n_blocks(n_values) * len(CLUSTER_SPACES)


def compute(worker: "Worker", progress: "Progress", *, seed: int, cost: float, is_there: bool) -> "Tables":
    """No rows where the atlas has the clusters already: they are of the model."""
    from ingest.recorders.clusters import cluster_rows
    from ingest.workers.worker import report_shares

    if is_there:
        progress(cost)
        return {}
    return {"value_cluster": report_shares(lambda share: cluster_rows(worker.model, seed, share), progress, cost)}


PASS = ValueCluster()

"""Clusters of all values, by their directions and by their scores (Geva et al. 2022, section 5); one shard."""

from ingest.passes.base import PlannedPass, flag


class ValueCluster(PlannedPass):
    name = "value_cluster"
    after = ("weights", "trace")
    reads = ("value_cluster",)
    options = (flag("value-cluster", "Cluster the values by their directions and by their scores (part of --paper)."),)
    work = "ingest.recorders.clusters:ValueCluster"


PASS = ValueCluster()

"""Clusters of values."""

from sqlalchemy import Integer, MetaData, String

from schema import terms
from schema.columns import FilledBy, column, layer, neuron, one_of, table

ORDER = 90
VALUE_CLUSTER = FilledBy("value_cluster", "--model … --corpus … --paper")


def tables(m: MetaData, _: int) -> None:
    table(
        "value_cluster",
        m,
        column("space", String, "What was compared: the values themselves, or logits, their scores E·value over the vocabulary."),
        layer(),
        neuron(),
        column("cluster", Integer, "Number of the cluster within the space, from 0 in the order of its first layer and neuron."),
        one_of("space", terms.CLUSTER_SPACES),
        comment="Clusters of values: agglomerative, complete linkage, distance 1 - cosine (Geva et al. 2022, section 5 and its early exit).",
        grain=("space", "layer", "neuron"),
        sort=("space", "layer", "neuron"),
        filled_by=VALUE_CLUSTER,
        bytes_a_row=5,
    )

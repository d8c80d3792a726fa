"""Tables that the figures of Geva et al. 2021 and 2022 need beyond sweep and trace."""

from sqlalchemy import REAL, BigInteger, Integer, MetaData, SmallInteger, String, Table

from schema import terms
from schema.columns import column, corpus_id, layer, neuron, one_of


def paper_tables(m: MetaData) -> None:
    Table(
        "removal",
        m,
        corpus_id(),
        layer(),
        neuron(),
        column("rank", SmallInteger, "Rank of the trigger in the tail max, from 1; table trigger has its coefficient before the removal."),
        column("removed", String, "Which token of the prefix was left out: the first, the last or a random one; BOS stays."),
        column("coefficient", REAL, "m_i at the last token of what is left of the prefix, read alone."),
        one_of("removed", terms.REMOVALS),
        comment="Triggers read again without one token (Geva et al. 2021, figure 3), for a seeded sample of keys; prefixes of one token are left out.",
        info={"grain": ("corpus_id", "layer", "neuron", "rank", "removed"), "sort": ("corpus_id", "layer", "neuron", "rank", "removed")},
    )
    Table(
        "next_token_rank",
        m,
        corpus_id(),
        layer(),
        neuron(),
        column("token_id", Integer, "The corpus token that follows the key's top trigger (tail max, rank 1).", "token.token_id"),
        column("value_rank", Integer, "Its rank in softmax(E·value), raw projection, from 1; ties count lower ids first."),
        column("value_prob", REAL, "Its probability there, in [0, 1]."),
        comment="What each value says of the token that follows its key's top trigger (Geva et al. 2021, figure 5); none where a document ends there.",
        info={"grain": ("corpus_id", "layer", "neuron"), "sort": ("corpus_id", "layer", "neuron")},
    )
    Table(
        "control_token",
        m,
        column("control", String, "random_vector: drawn with the mean and standard deviation of the layer's values; ffn_update: a whole ffn_out."),
        layer(),
        column("item", BigInteger, "Number of the random vector, from 0; position_id of the update."),
        column("rank", SmallInteger, "From 1 to 30; ties go to the lowest token_id."),
        column("token_id", Integer, "The token.", "token.token_id"),
        column("score", REAL, "e_token·vector, raw projection (logit units)."),
        one_of("control", terms.CONTROLS),
        comment="What vectors that are no values promote: the baselines of the concept counts (Geva et al. 2022, section 4).",
        info={"grain": ("control", "layer", "item", "rank"), "sort": ("control", "layer", "item", "rank")},
    )
    Table(
        "value_cluster",
        m,
        column("space", String, "What was compared: the values themselves, or logits, their scores E·value over the vocabulary."),
        layer(),
        neuron(),
        column("cluster", Integer, "Number of the cluster within the space, from 0 in the order of its first layer and neuron."),
        one_of("space", terms.CLUSTER_SPACES),
        comment="Clusters of values: agglomerative, complete linkage, distance 1 - cosine (Geva et al. 2022, section 5 and its early exit).",
        info={"grain": ("space", "layer", "neuron"), "sort": ("space", "layer", "neuron")},
    )

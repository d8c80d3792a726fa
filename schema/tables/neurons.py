"""What Geva et al. 2021 and 2022 measure of keys and values beyond sweep and trace, and the map."""

from sqlalchemy import REAL, BigInteger, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, column, corpus_id, layer, neuron, one_of, probability, table

ORDER = 60

REMOVAL = FilledBy("removal", "--model … --corpus … --paper")
NEXT_TOKEN_RANK = FilledBy("next_token_rank", "--model … --corpus … --paper")
CONTROL_TOKEN = FilledBy("control_token", "--model … --corpus … --paper")
VALUE_CLUSTER = FilledBy("value_cluster", "--model … --corpus … --paper")
MAP = FilledBy("map", "--model … --map", unit="points", counted="SELECT count(*) FROM map_point AS m WHERE m.run_id = r.run_id")


def tables(m: MetaData, _: int) -> None:
    removal_tables(m)
    next_token_rank_tables(m)
    control_token_tables(m)
    value_cluster_tables(m)
    map_tables(m)


def removal_tables(m: MetaData) -> None:
    table(
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
        grain=("corpus_id", "layer", "neuron", "rank", "removed"),
        sort=("corpus_id", "layer", "neuron", "rank", "removed"),
        filled_by=REMOVAL,
        bytes_a_row=6,
    )


def next_token_rank_tables(m: MetaData) -> None:
    table(
        "next_token_rank",
        m,
        corpus_id(),
        layer(),
        neuron(),
        column("token_id", Integer, "The corpus token that follows the key's top trigger (tail max, rank 1).", "token.token_id"),
        column("value_rank", Integer, "Its rank in softmax(E·value), raw projection, from 1; ties count lower ids first."),
        probability("value_prob", "Its probability there, in [0, 1]."),
        comment="What each value says of the token that follows its key's top trigger (Geva et al. 2021, figure 5); none where a document ends there.",
        grain=("corpus_id", "layer", "neuron"),
        sort=("corpus_id", "layer", "neuron"),
        filled_by=NEXT_TOKEN_RANK,
        bytes_a_row=13,
    )


def control_token_tables(m: MetaData) -> None:
    table(
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
        grain=("control", "layer", "item", "rank"),
        sort=("control", "layer", "item", "rank"),
        filled_by=CONTROL_TOKEN,
        bytes_a_row=13,
    )


def value_cluster_tables(m: MetaData) -> None:
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


def map_tables(m: MetaData) -> None:
    coordinate = "coordinate, of no unit: only who lies near whom means something"
    table(
        "map_point",
        m,
        column("run_id", Integer, "The map run that made the layout; of several layouts of one kind the last counts.", "run.run_id"),
        column("layout", String, "What is placed: value, the values of all layers; resid_post, the states of traced positions there, at all layers."),
        column("layer", SmallInteger, "Transformer block of the value or state, counted from 0."),
        column("neuron", Integer, "Neuron of the value; null for states.", null=True),
        column("position_id", BigInteger, "Traced position of the state; null for values.", "position.position_id", null=True),
        column("x", REAL, f"Horizontal {coordinate}."),
        column("y", REAL, f"Vertical {coordinate}."),
        one_of("layout", terms.LAYOUTS),
        comment="Values, and states of traced positions, placed in the plane so that near ones by cosine lie near each other (UMAP).",
        grain=("run_id", "layout", "layer", "neuron", "position_id"),
        sort=("run_id", "layout", "layer", "neuron", "position_id"),
        filled_by=MAP,
        bytes_a_row=14,
    )

"""What follows from the weights alone: every neuron's key and value, and the values near each other."""

from sqlalchemy import REAL, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, column, layer, neuron, one_of, probability, table

ORDER = 30
WEIGHTS = FilledBy("weights", "--model …", unit="neurons", counted="SELECT count(*) FROM neuron")


def tables(m: MetaData, _: int) -> None:
    table(
        "neuron",
        m,
        layer(),
        neuron(),
        column("key_norm", REAL, "Length of the key (for gated FFNs of the up key)."),
        column("gate_norm", REAL, "Length of the gate key; null if the FFN is not gated.", null=True),
        column("value_norm", REAL, "Length of the value, the gain of a following norm folded in."),
        column("key_value_cosine", REAL, "Cosine of key (up key) and value, in [-1, 1]; strongly negative: the neuron erases what it reads."),
        column("gate_value_cosine", REAL, "Cosine of gate key and value, in [-1, 1]; null if not gated.", null=True),
        probability("value_max_prob", "Largest probability of softmax(E·value), raw projection, coefficient 1, in [0, 1]."),
        column("value_top_token_id", Integer, "Token of that probability (lowest id on ties).", "token.token_id"),
        comment="One FFN neuron: a key and a value (Geva et al. 2021, section 2).",
        grain=("layer", "neuron"),
        sort=("layer", "neuron"),
        filled_by=WEIGHTS,
        bytes_a_row=40,
    )
    table(
        "value_token",
        m,
        layer(),
        neuron(),
        column("direction", String, "promoted (largest scores) or suppressed (smallest), for a positive coefficient."),
        column("rank", SmallInteger, "From 1; ties go to the lowest token_id."),
        column("token_id", Integer, "The token.", "token.token_id"),
        column("score", REAL, "e_token·value, raw projection, coefficient 1 (logit units)."),
        probability("prob", "softmax(E·value) at the token, in [0, 1]."),
        one_of("direction", terms.DIRECTIONS),
        comment="The tokens each value promotes and suppresses most (Geva et al. 2022, section 3).",
        grain=("layer", "neuron", "direction", "rank"),
        sort=("layer", "neuron", "direction", "rank"),
        filled_by=WEIGHTS,
        bytes_a_row=11,
    )
    table(
        "value_neighbour",
        m,
        layer(),
        neuron(),
        column("rank", SmallInteger, "From 1 to 20, by cosine; ties go to the lower layer and neuron."),
        column("neighbour_layer", SmallInteger, "Layer of the nearby value."),
        column("neighbour_neuron", Integer, "Neuron of the nearby value."),
        column("cosine", REAL, "Cosine of the two values, in [-1, 1]."),
        comment="The values of the whole model that point most nearly the same way as each value.",
        grain=("layer", "neuron", "rank"),
        sort=("layer", "neuron", "rank"),
        filled_by=WEIGHTS,
        bytes_a_row=7,
    )

"""What states a token takes through the layers: its mean state, and how narrow the cone of all states is."""

from sqlalchemy import BigInteger, Double, Integer, MetaData, String

from schema import terms
from schema.columns import FilledBy, Vector, column, corpus_id, layer, nonnegative, one_of, probability, table

ORDER = 170
TOKEN_STATE = FilledBy("token_state", "--model … --corpus … --token-states")


def tables(m: MetaData, d_model: int) -> None:
    table(
        "token_state",
        m,
        corpus_id(),
        layer(),
        column("token_id", Integer, "A token that is text, with 20 occurrences or more in what was read.", "token.token_id"),
        column("n_positions", BigInteger, "Occurrences that the mean is over; none is at index 0 of a sequence."),
        column("vector", Vector(d_model), "Mean resid_post at the token's occurrences, in residual-stream units."),
        comment="The mean state of each frequent token in four layers from the first to the last.",
        grain=("corpus_id", "layer", "token_id"),
        sort=("corpus_id", "layer", "token_id"),
        filled_by=TOKEN_STATE,
        bytes_a_row=4 * d_model,
    )
    table(
        "layer_geometry",
        m,
        corpus_id(),
        layer(),
        column("site", String, "resid_pre of the first layer, resid_post of every layer."),
        column("n_states", Integer, "Sampled states; none is at index 0 of a sequence, where the states of most models are huge."),
        column("n_pairs", BigInteger, "Pairs of them that are of different tokens."),
        column(
            "mean_cosine",
            Double,
            "Mean cosine of these pairs, in [-1, 1]: anisotropy. Near 0 where states point anywhere, 1 where all point one way; null if there are none.",
            null=True,
        ),
        nonnegative("mean_norm", "Mean length of the sampled states, in residual-stream units.", kind=Double),
        probability("top_dimension_share", "Largest share that one dimension has of their squared length, in [0, 1].", kind=Double),
        probability("first_component_share", "Share of their variance about their mean that lies along its first principal component, in [0, 1].", kind=Double),
        column("n_tokens", Integer, "Tokens that self_similarity is the mean over."),
        column(
            "self_similarity",
            Double,
            "Mean over frequent tokens of the mean cosine of two occurrences of one token, in [-1, 1]; 1 where no context shows. Null if no token is frequent.",
            null=True,
        ),
        one_of("site", terms.GEOMETRY_SITES),
        comment="How states lie in each layer (Ethayarajh 2019): how narrow their cone is, and how alike a token's states are in different contexts.",
        grain=("corpus_id", "layer", "site"),
        sort=("corpus_id", "layer", "site"),
        filled_by=TOKEN_STATE,
        bytes_a_row=0,
    )

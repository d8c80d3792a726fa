"""The rows of the embedding matrices as word vectors, and which lie near each other."""

from sqlalchemy import REAL, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, Vector, column, one_of, table

ORDER = 160
TOKEN_VECTOR = FilledBy("token_vector", "--model … --token-vectors")
SPACE = "input: what the token brings to the stream, its row of the input embedding; output: its row of the output embedding, where that is another."


def tables(m: MetaData, d_model: int) -> None:
    table(
        "token_space",
        m,
        column("space", String, SPACE),
        column("n_tokens", Integer, "Tokens that have a vector here: those that are text."),
        column("mean", Vector(d_model), "Mean of their vectors, which centred cosines are about."),
        one_of("space", terms.TOKEN_SPACES),
        comment="The spaces that tokens have vectors in.",
        grain=("space",),
        sort=("space",),
        filled_by=TOKEN_VECTOR,
        bytes_a_row=0,
    )
    table(
        "token_vector",
        m,
        column("space", String, SPACE),
        column("token_id", Integer, "A token that is text: control tokens and rows that no token uses have no vector here.", "token.token_id"),
        column("vector", Vector(d_model), "Its vector, in residual-stream units; of output what logits are products with."),
        one_of("space", terms.TOKEN_SPACES),
        comment="One vector a token: the rows of the input and the output embedding as word vectors.",
        grain=("space", "token_id"),
        sort=("space", "token_id"),
        filled_by=TOKEN_VECTOR,
        bytes_a_row=4 * d_model,
    )
    table(
        "token_neighbour",
        m,
        column("space", String, SPACE),
        column("token_id", Integer, "A token that is text.", "token.token_id"),
        column("rank", SmallInteger, "From 1 to 20, by falling cosine; ties go to the lower token_id."),
        column("neighbour_token_id", Integer, "The token near it; never itself.", "token.token_id"),
        column("cosine", REAL, "Of the two vectors less the mean of their space, in [-1, 1]."),
        column("raw_cosine", REAL, "Of the two vectors as they are, in [-1, 1]; most of it is what all tokens share."),
        one_of("space", terms.TOKEN_SPACES),
        comment="The tokens whose vectors point most nearly the same way as each token's.",
        grain=("space", "token_id", "rank"),
        sort=("space", "token_id", "rank"),
        filled_by=TOKEN_VECTOR,
        bytes_a_row=9,
    )

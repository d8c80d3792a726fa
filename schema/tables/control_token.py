"""The tokens that vectors promote which are no values."""

from sqlalchemy import REAL, BigInteger, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, column, layer, one_of, table

ORDER = 80
CONTROL_TOKEN = FilledBy("control_token", "--model … --corpus … --paper")


def tables(m: MetaData, _: int) -> None:
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

"""What values say of the tokens that follow their keys' top triggers."""

from sqlalchemy import Integer, MetaData

from schema.columns import FilledBy, column, corpus_id, layer, neuron, probability, table

ORDER = 70
NEXT_TOKEN_RANK = FilledBy("next_token_rank", "--model … --corpus … --paper")


def tables(m: MetaData, _: int) -> None:
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

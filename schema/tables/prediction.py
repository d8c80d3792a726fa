"""What comes next at every position: the model's prediction, and that of counting."""

from sqlalchemy import Integer, MetaData, SmallInteger

from schema.columns import FilledBy, column, nonnegative, position_id, probability, table

ORDER = 45
OF_CORPUS = "SELECT c.n_positions FROM corpus AS c WHERE c.corpus_id = r.corpus_id"
PREDICTION = FilledBy("prediction", "--model … --corpus …", unit="positions", counted=OF_CORPUS)
NGRAM = FilledBy("ngram", "--model … --corpus … --ngram-split …", unit="positions", counted=OF_CORPUS)


def tables(m: MetaData, _: int) -> None:
    table(
        "position_prediction",
        m,
        position_id(),
        nonnegative("surprisal", "Negative log-probability of the token that follows, in nats; null where none does.", null=True),
        nonnegative("entropy", "Entropy of the probabilities of all tokens, in nats."),
        column(
            "next_token_rank",
            Integer,
            "Rank of the token that follows, 1 the most probable; ties go to the lower token_id; null where none follows.",
            null=True,
        ),
        column("top_token_id", Integer, "The most probable token; ties go to the lower token_id.", "token.token_id"),
        probability("top_prob", "Its probability, in [0, 1]."),
        probability("starts_word_prob", "Probability of all tokens together that begin with white space or are special: behind them no word goes on."),
        comment="The model's own prediction at every position, by a softmax of its logits in float32.",
        grain=("position_id",),
        sort=("position_id",),
        filled_by=PREDICTION,
        bytes_a_row=24,
    )
    table(
        "ngram_prediction",
        m,
        position_id(),
        column("ngram_order", SmallInteger, "Tokens of the longest n-gram that was counted, the predicted one included: 3 or 5."),
        nonnegative("surprisal", "Negative log-probability of the token that follows, in nats."),
        column("matched_order", SmallInteger, "The same of the longest whose context the counted text has: 1 + tokens of context; 1 where it has none."),
        comment="What counting alone predicts: interpolated modified Kneser-Ney over the model's own tokens (Chen and Goodman 1998), counted in other text.",
        grain=("position_id", "ngram_order"),
        sort=("position_id", "ngram_order"),
        filled_by=NGRAM,
        bytes_a_row=9,
    )

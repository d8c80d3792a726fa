"""How well a model of attention alone predicts with the shorter of its paths, and how it was trained."""

from sqlalchemy import BigInteger, Double, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, column, corpus_id, nonnegative, one_of, probability, table

ORDER = 150
TERM_LOSS = FilledBy("term_loss", "--model … --corpus … --term-loss")
TRAINING_CURVE = FilledBy("training_curve", "--model …")


def tables(m: MetaData, _: int) -> None:
    table(
        "term_loss",
        m,
        corpus_id(),
        column(
            "term",
            String,
            "What predicts. unigram: how often each token is in the corpus. paths: those through at most most_heads heads. layer: the direct path and the "
            "single heads of one layer; other_layers: and those of all layers but one. model: the model itself.",
        ),
        column("most_heads", SmallInteger, "Heads on a path, at most: 0 the direct path, 1 single heads, 2 and more virtual heads; null of others.", null=True),
        column("layer", SmallInteger, "Transformer block, counted from 0, whose heads are there alone, or are left out; null of others.", null=True),
        nonnegative("loss", "Mean negative log-probability of the tokens that follow, in nats; attention patterns are the model's own.", kind=Double),
        column("n", BigInteger, "Predictions that it is the mean of: of the same sampled sequences in all rows of a corpus."),
        one_of("term", terms.LOSS_TERMS),
        comment="How well a model of attention alone predicts with some of its paths (Elhage et al. 2021, term importance).",
        grain=("corpus_id", "term", "most_heads", "layer"),
        sort=("corpus_id", "term", "most_heads", "layer"),
        filled_by=TERM_LOSS,
        bytes_a_row=0,
    )
    table(
        "training_curve",
        m,
        column("step", Integer, "Steps of training before the check."),
        nonnegative("first_block", "Loss of random tokens that nothing tells, in nats."),
        nonnegative("second_block", "Loss of the same tokens when they come again, in nats."),
        probability("induction", "Largest of all heads: mean weight, in the second block, on the token after the first copy of the one that it looks from."),
        column("induction_layer", SmallInteger, "Layer of that head, counted from 0."),
        column("induction_head", SmallInteger, "That head, counted from 0."),
        probability("previous", "Largest of all heads: mean weight on the token before."),
        column("previous_layer", SmallInteger, "Layer of that head, counted from 0."),
        column("previous_head", SmallInteger, "That head, counted from 0."),
        comment="What a model made of random tokens read twice while it was trained, as the file curve.json beside its weights says (Olsson et al. 2022).",
        grain=("step",),
        sort=("step",),
        filled_by=TRAINING_CURVE,
        bytes_a_row=0,
    )

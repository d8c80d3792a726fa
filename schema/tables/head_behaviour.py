"""What attention heads look at: on a corpus, and on random tokens that repeat."""

from collections.abc import Iterator

from sqlalchemy import BigInteger, Column, Double, MetaData, SmallInteger, String

from schema import terms
from schema.columns import ROUNDING, FilledBy, added, column, corpus_id, head, layer, nonnegative, one_of, probability, table

ORDER = 120
HEAD_STATISTICS = FilledBy(
    "head_statistics", "--model … --corpus … --head-statistics", "positions", "SELECT c.n_positions FROM corpus AS c WHERE c.corpus_id = r.corpus_id"
)
HEAD_PROBE = FilledBy("head_probe", "--model … --head-probe")

WHERE = (
    "on the position before",
    "on the destination itself",
    "on index 0 of the sequence",
    "on all earlier copies of the destination's token together; over n_repeated",
    "on all tokens that come after an earlier copy of the destination's token, the destination itself at most; over n_repeated",
)
"""What the means of terms.LOOKED_AT are of."""


def means() -> Iterator[Column]:
    """Yield the columns of a head's means over destinations: every position but those at index 0."""
    yield column("n_destinations", BigInteger, "Positions the means are over: all but those at index 0 of their sequence.")
    yield column("n_repeated", BigInteger, "Of them those whose token came before in their sequence.")
    for name, where in zip(terms.LOOKED_AT, WHERE, strict=True):
        yield probability(name, f"Mean weight {where}; in [0, 1], null if there are none.", null=True, kind=Double)
        yield probability(
            f"{name}_uniform", "The same at the same positions for weights that are equal on all that a destination sees.", null=True, kind=Double
        )
    yield nonnegative("entropy", "Mean entropy of the weights, in nats.", null=True, kind=Double)
    yield nonnegative("entropy_uniform", "The same for equal weights: the most that there can be.", null=True, kind=Double)


def moved_share_columns(by: FilledBy) -> Iterator[Column]:
    """Yield the columns of what the values behind the weights move, over the same destinations."""
    what = "Mean share of index 0 in what all sources move, weight·‖W_O·v‖; in [0, 1]"
    yield added(by, "first_moved", Double, what, bounds=(0, 1 + ROUNDING))
    yield added(by, "first_moved_uniform", Double, "The same for weights that are equal on all that a destination sees", bounds=(0, 1 + ROUNDING))


def tables(m: MetaData, _: int) -> None:
    table(
        "head_statistics",
        m,
        corpus_id(),
        layer(),
        head(),
        *means(),
        *moved_share_columns(HEAD_STATISTICS),
        comment="What each attention head looks at over a whole corpus (Elhage et al. 2021; Olsson et al. 2022), beside equal weights.",
        grain=("corpus_id", "layer", "head"),
        sort=("corpus_id", "layer", "head"),
        filled_by=HEAD_STATISTICS,
        bytes_a_row=134,
        is_merged=True,
    )
    table(
        "attention_distance",
        m,
        corpus_id(),
        layer(),
        head(),
        column("bin", SmallInteger, "Distances 0, 1, 2, 3-4, 5-8, …: bin b from 1 on ends with the distance 2^(b - 1)."),
        nonnegative("weight", "Attention weight on sources so far back, summed over the destinations.", kind=Double),
        nonnegative("uniform", "The same for weights that are equal on all that a destination sees.", kind=Double),
        column("n", BigInteger, "Destinations: every position but those at index 0; the weights of all bins sum to it."),
        comment="How far back each attention head looks over a whole corpus.",
        grain=("corpus_id", "layer", "head", "bin"),
        sort=("corpus_id", "layer", "head", "bin"),
        filled_by=HEAD_STATISTICS,
        bytes_a_row=18,
        is_merged=True,
    )
    table(
        "head_probe",
        m,
        column("probe", String, "repeat: 50 random tokens, then the same again; olsson2022: 25 random tokens four times."),
        layer(),
        head(),
        *means(),
        *moved_share_columns(HEAD_PROBE),
        added(
            HEAD_PROBE,
            "attended_logit",
            Double,
            "What it adds to the logit of the tokens that it looks at, above what it adds to all logits on average: sum over sources, weighted as it looks, "
            "and mean over destinations; logits before a soft-cap",
        ),
        added(
            HEAD_PROBE,
            "copying",
            Double,
            "By how much it raises the logit of the tokens that it looks at, own, of all tokens of the sequence, all, each above the mean of all logits or "
            "else 0, and summed over destinations: 4·own/(own + all) - 1, in [-1, 1]; 1: it raises no other, -1: it never raises them (Olsson et al. 2022); "
            "null where it raises none",
        ),
        one_of("probe", terms.PROBES),
        comment="What each attention head looks at in random tokens that repeat (Elhage et al. 2021; Olsson et al. 2022), beside equal weights.",
        grain=("probe", "layer", "head"),
        sort=("probe", "layer", "head"),
        filled_by=HEAD_PROBE,
        bytes_a_row=150,
    )
    table(
        "probe_loss",
        m,
        column("probe", String, "repeat or olsson2022, as in head_probe."),
        column("block", SmallInteger, "Which time the tokens are read, from 1."),
        nonnegative("loss", "Mean negative log-probability of the block's tokens, each from what comes before it, in nats."),
        column("n", BigInteger, "Tokens the mean is over; the first of a sequence is from nothing and is left out."),
        one_of("probe", terms.PROBES),
        comment="How well the model predicts random tokens when they are new and when they repeat.",
        grain=("probe", "block"),
        sort=("probe", "block"),
        filled_by=HEAD_PROBE,
        bytes_a_row=0,
    )

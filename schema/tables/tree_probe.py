"""Structural probes: whether a linear map of states has the distances and depths of parse trees."""

from sqlalchemy import REAL, BigInteger, Column, Double, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, bounded, column, corpus_id, interval_columns, layer, one_of, probability, table

ORDER = 185
TREE_PROBE = FilledBy(
    "tree_probe", "--model … --corpus … --words … --tree-probe", unit="probes", counted="SELECT count(*) FROM tree_probe AS p WHERE p.run_id = r.run_id"
)


def run_id() -> Column:
    return column("run_id", Integer, "The run of the pass tree_probe.", "run.run_id")


def target() -> Column:
    return column("target", String, "What is learned: distance: edges between two words of a sentence; depth: edges between a word and the root.")


def site() -> Column:
    return column("site", String, "What the probe reads: resid_pre of layer 0, or resid_post of a layer, at each word's last token.")


def accuracy(name: str, start: str) -> Column:
    return probability(
        name,
        f"{start} Of distances the share of the trees' edges that the minimum spanning tree has (UUAS); of depths the share of sentences whose least deep word "
        "is the root. Punctuation is left out. In [0, 1].",
        kind=Double,
    )


def spearman(name: str, start: str) -> Column:
    comment = (
        f"{start} Rank correlation with the tree: of each word's distances to the others, or of a sentence's depths; mean over sentences of 5 to 50 words, "
        "first within each length. Null without such a sentence."
    )
    return bounded(name, comment, True, (-1 - 1e-9, 1 + 1e-9), Double)


def tables(m: MetaData, _: int) -> None:
    table(
        "tree_task",
        m,
        run_id(),
        target(),
        corpus_id(),
        column("n_train", BigInteger, "Sentences that probes learn from."),
        column("n_test", BigInteger, "Sentences that they are scored on, of other documents."),
        column(
            "n_left_out",
            BigInteger,
            "Sentences of either part that have no whole tree, are too long, or have a word at index 0, in another sequence, or that no token ends with.",
        ),
        column("n_train_documents", Integer, "Documents of the former."),
        column("n_test_documents", Integer, "Documents of the latter."),
        column("n_train_words", BigInteger, "Words to learn from, punctuation included."),
        column("n_test_words", BigInteger, "Words of the test, punctuation included."),
        column("n_scored", BigInteger, "What the accuracy is a share of: edges between words of the test, or its sentences."),
        accuracy("chain_accuracy", "Accuracy without any state, where neighbours are joined, and each word lies below the one before it."),
        spearman("chain_spearman", "The same baseline's."),
        one_of("target", terms.TREE_TARGETS),
        comment="What structural probes learn, and how far one gets by the order of words alone.",
        grain=("run_id", "target"),
        sort=("run_id", "target"),
        filled_by=TREE_PROBE,
        bytes_a_row=0,
    )
    table(
        "tree_probe",
        m,
        run_id(),
        target(),
        column("kind", String, "tree: from states of the model; untrained: from those of the same architecture with random weights."),
        layer(),
        site(),
        column("rank", SmallInteger, "Dimensions that states are mapped to."),
        accuracy("accuracy", "How much of the trees is found."),
        probability("accuracy_low", "Lower end of the accuracy's 95% interval over documents; null where there is none.", null=True, kind=Double),
        probability("accuracy_high", "Its upper end.", null=True, kind=Double),
        spearman("spearman", "How well the order is found."),
        column("n_epochs", SmallInteger, "How often the sentences were gone through."),
        *interval_columns(TREE_PROBE, "Documents"),
        one_of("target", terms.TREE_TARGETS),
        one_of("kind", terms.TREE_KINDS),
        one_of("site", terms.GEOMETRY_SITES),
        comment="How well a linear map of one layer's states has the distances or depths of parse trees (Hewitt and Manning 2019), split by document.",
        grain=("run_id", "target", "kind", "layer", "site", "rank"),
        sort=("run_id", "target", "kind", "layer", "site", "rank"),
        filled_by=TREE_PROBE,
        bytes_a_row=0,
    )
    table(
        "tree_edge",
        m,
        run_id(),
        layer(),
        site(),
        column("word_id", BigInteger, "A word of the test.", "word.word_id"),
        column("joined_word_id", BigInteger, "The next word on the way to the root of its sentence.", "word.word_id"),
        column("distance", REAL, "Squared distance of their mapped states."),
        one_of("site", terms.GEOMETRY_SITES),
        comment="Edges of the minimum spanning trees by the probe of the largest rank, punctuation left out.",
        grain=("run_id", "layer", "site", "word_id"),
        sort=("run_id", "layer", "site", "word_id"),
        filled_by=TREE_PROBE,
        bytes_a_row=8,
    )

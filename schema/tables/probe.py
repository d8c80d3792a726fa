"""Linear probes: what can be read of words from the states at which the model has read them, beside what a probe can memorise."""

from sqlalchemy import REAL, BigInteger, Boolean, Column, Double, Integer, MetaData, String

from schema import terms
from schema.columns import FilledBy, added, column, corpus_id, interval_columns, layer, nonnegative, one_of, probability, table

ORDER = 180
PROBE = FilledBy("probe", "--model … --corpus … --words … --probe pos", unit="probes", counted="SELECT count(*) FROM probe AS p WHERE p.run_id = r.run_id")


def run_id() -> Column:
    return column("run_id", Integer, "The run of the pass probe.", "run.run_id")


def task() -> Column:
    return column("task", String, "Which label of the words is predicted: a column of word, or what the text itself says (docs/probes.md).")


def site() -> Column:
    return column("site", String, "What the probe reads: resid_pre of layer 0, or resid_post of a layer, at the word's last token.")


def tables(m: MetaData, _: int) -> None:
    table(
        "probe_task",
        m,
        run_id(),
        task(),
        corpus_id(),
        column("n_train", BigInteger, "Words that probes learn from; none is read at index 0 of a sequence."),
        column("n_test", BigInteger, "Words that they are scored on, of other documents."),
        column("n_train_documents", Integer, "Documents of the former."),
        column("n_test_documents", Integer, "Documents of the latter."),
        column("n_classes", Integer, "Labels among the words to learn from."),
        column("n_unseen", BigInteger, "Words of the test whose type, their characters as they are written, is not among those to learn from."),
        column("l2", Double, "Penalty: this times half the squared length of the weights is added to the sum of the words' losses in nats."),
        probability("majority_accuracy", "Accuracy of always saying the most frequent label, in [0, 1].", kind=Double),
        probability("type_accuracy", "Accuracy of saying the type's most frequent label, of an unseen type the most frequent of all, in [0, 1].", kind=Double),
        one_of("task", terms.PROBE_TASKS),
        comment="What probes of a label are told from, and how far one gets without any state.",
        grain=("run_id", "task"),
        sort=("run_id", "task"),
        filled_by=PROBE,
        bytes_a_row=0,
    )
    table(
        "probe",
        m,
        run_id(),
        task(),
        column(
            "kind",
            String,
            "label: the words' labels; control: a label drawn for each type, the same in training and test (Hewitt and Liang 2019); untrained: the words' "
            "labels, from states of the same architecture with random weights.",
        ),
        layer(),
        site(),
        probability("accuracy", "Share of the words of the test whose label is the probe's first, in [0, 1].", kind=Double),
        probability("accuracy_low", "Lower end of the accuracy's 95% interval over documents; null where there is none.", null=True, kind=Double),
        probability("accuracy_high", "Its upper end.", null=True, kind=Double),
        probability("unseen_accuracy", "Accuracy on words whose type is not among those to learn from; null if there are none.", null=True, kind=Double),
        nonnegative(
            "codelength",
            "Bits that it takes to say the labels to learn from by probes that have seen those before (online code of Voita and Titov 2020).",
            kind=Double,
        ),
        column("is_converged", Boolean, "Whether the fit ended before its last step."),
        added(PROBE, "rank", Integer, "Directions of a state that the probe can read: of its weights, a matrix of labels by d_model, the rank at most"),
        *interval_columns(PROBE, "Documents"),
        one_of("task", terms.PROBE_TASKS),
        one_of("kind", terms.PROBE_KINDS),
        one_of("site", terms.GEOMETRY_SITES),
        comment="How well a linear classifier tells labels of words from one layer's states: multinomial logistic regression, split by document.",
        grain=("run_id", "task", "kind", "layer", "site"),
        sort=("run_id", "task", "kind", "layer", "site"),
        filled_by=PROBE,
        bytes_a_row=0,
    )
    table(
        "probe_prediction",
        m,
        run_id(),
        task(),
        layer(),
        site(),
        column("word_id", BigInteger, "A word of the test.", "word.word_id"),
        column("label", String, "Its label; of a word in no named entity O."),
        column("predicted", String, "What the probe of kind label says."),
        probability("prob", "Probability that it gives what it says, in [0, 1].", kind=REAL),
        one_of("task", terms.PROBE_TASKS),
        one_of("site", terms.GEOMETRY_SITES),
        comment="What probes say of each word of the test.",
        grain=("run_id", "task", "layer", "site", "word_id"),
        sort=("run_id", "task", "layer", "site", "word_id"),
        filled_by=PROBE,
        bytes_a_row=8,
    )

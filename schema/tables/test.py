"""Tests: what each sentence of a suite is for, where its regions lie, and the neurons that tell good from bad."""

from sqlalchemy import REAL, BigInteger, Integer, MetaData, SmallInteger, String

from schema.columns import FilledBy, column, corpus_id, layer, neuron, nonnegative, one_of, table
from schema.terms import TEST_KINDS

ORDER = 155
TEST = FilledBy("test", "--model … --suite agreement --bos start")


def tables(m: MetaData, _: int) -> None:
    table(
        "test_item",
        m,
        column("document_id", BigInteger, "The sentence: a document of the suite's corpus.", "document.document_id"),
        column("kind", String, "pair (minimal pair), region (formulas over surprisals), mft, inv or dir (templates)."),
        column("suite", String, "The suite it belongs to."),
        column("paradigm", String, "What the item tests; accuracies are averaged over paradigms."),
        column("item", String, "Name of the item, which its sentences share; unique in its corpus, suite and paradigm."),
        column("role", String, "What the sentence is to its item: good or bad; a condition; expected or rival; original, perturbed or changed."),
        column("expectation", String, "What is expected: formulas, one a line; of inv the perturbation; of dir up or down; null for pair and mft.", null=True),
        column(
            "delta", REAL, "Of inv the largest divergence, and of dir the least change of log-probability, that passes, in nats; null elsewhere.", null=True
        ),
        one_of("kind", TEST_KINDS),
        comment="What a sentence of a suite is for: a test is a corpus, and its texts, traces and predictions are those of any other.",
        grain=("document_id",),
        sort=("document_id",),
        filled_by=TEST,
        bytes_a_row=12,
    )
    table(
        "test_region",
        m,
        column("document_id", BigInteger, "The sentence.", "test_item.document_id"),
        column("region", String, "critical: where a pair differs; scored: what alone is scored; after: what follows an edit; elsewhere as the suite has it."),
        column("first_position_id", BigInteger, "Its first token. The surprisal of a token stands at the position before it.", "position.position_id"),
        column("last_position_id", BigInteger, "Its last token.", "position.position_id"),
        comment="A stretch of a test's sentence: the tokens whose first character that is no white space lies in it. One that no token begins in has no row.",
        grain=("document_id", "region"),
        sort=("document_id", "region"),
        filled_by=TEST,
        bytes_a_row=12,
    )
    table(
        "neuron_contrast",
        m,
        corpus_id(),
        column("suite", String, "The suite."),
        column("paradigm", String, "The paradigm, of minimal pairs."),
        layer(),
        neuron(),
        column("n_items", Integer, "Pairs the numbers were taken over."),
        column("mean", REAL, "Mean of the difference m_i·‖v_i‖ in the good sentence less that in the bad one, each at its last critical, else its last token."),
        nonnegative("std", "Standard deviation of the difference over the pairs (divided by their number)."),
        nonnegative("mean_absolute", "Mean of its size without sign."),
        comment="Neurons that changed between the sentences of minimal pairs; m_i·‖v_i‖ as in sub_update_norm, with its sign. Candidates, not causes.",
        grain=("corpus_id", "suite", "paradigm", "layer", "neuron"),
        sort=("corpus_id", "suite", "paradigm", "layer", "neuron"),
        filled_by=TEST,
        bytes_a_row=14,
    )
    template_tables(m)


def template_tables(m: MetaData) -> None:
    table(
        "test_term",
        m,
        corpus_id(),
        column("suite", String, "The suite."),
        column("paradigm", String, "The paradigm whose items the formula is asked of."),
        column("formula", SmallInteger, "Number of the formula, from 1; an item passes if all hold."),
        column("clause", SmallInteger, "Number of the clause, from 1; a formula holds if all its clauses do."),
        column("comparison", SmallInteger, "Number of the comparison, from 1; a clause holds if any of its comparisons does."),
        column("operator", String, "greater: the sum of the weighted surprisals is above 0; equal: it is 0 to 1e-3."),
        column("role", String, "Condition whose sentence is meant; empty for a constant."),
        column("region", String, "Region of that sentence, * for all of it; empty for a constant."),
        column("weight", REAL, "What its surprisal is multiplied by, or the constant itself, in nats."),
        one_of("operator", ("greater", "equal")),
        comment="Formulas over surprisals of regions (Gauthier et al. 2020), as sums that are above 0: SQL evaluates them.",
        grain=("corpus_id", "suite", "paradigm", "formula", "clause", "comparison", "role", "region"),
        sort=("corpus_id", "suite", "paradigm", "formula", "clause", "comparison", "role", "region"),
        filled_by=TEST,
        bytes_a_row=12,
    )
    table(
        "test_divergence",
        m,
        column("document_id", BigInteger, "The perturbed sentence.", "test_item.document_id"),
        column("original_document_id", BigInteger, "The sentence it was made from.", "test_item.document_id"),
        nonnegative(
            "divergence", "Jensen-Shannon divergence of the predictions behind the last tokens of both, in nats: 0 the same, ln 2 with nothing in common."
        ),
        comment="How far a perturbation moves the prediction at the end of a text.",
        grain=("document_id",),
        sort=("document_id",),
        filled_by=TEST,
        bytes_a_row=12,
    )

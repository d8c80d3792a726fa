"""Attention heads against the relations of a parse."""

from sqlalchemy import BigInteger, Column, Double, Integer, MetaData, String

from schema import terms
from schema.columns import FilledBy, added, column, corpus_id, head, layer, one_of, probability, table

ORDER = 187
HEAD_RELATION = FilledBy("head_relation", "--model … --corpus … --words … --head-relation")

LEFT_OUT = {
    "undrawn": "since no word of their sentence is in a sequence that was drawn",
    "split": "since their sentence does not lie in one sequence",
    "long": "since their sentence has more than 100 words or 512 tokens",
    "unread": "since one of the words is at index 0, ends with no token, or shares one with the other",
}
"""Why a pair of words counts in no share; all pairs are those to choose by, those of the test and these."""


def run_id() -> Column:
    return column("run_id", Integer, "The run of the pass head_relation.", "run.run_id")


def relation() -> Column:
    return column("relation", String, "What the dependent is to its head, as the source of the words names it; any: every relation but punct.")


def looks_at() -> Column:
    return column(
        "looks_at",
        String,
        "Which of the two words stands first, so that the other can look back at it: head, or dependent.",
    )


def tables(m: MetaData, _: int) -> None:
    table(
        "word_relation",
        m,
        run_id(),
        relation(),
        looks_at(),
        corpus_id(),
        column("n_words", BigInteger, "Pairs of words with this relation, of the documents that heads are chosen by; both read behind index 0."),
        column("n_test", BigInteger, "Such pairs of the other documents, which a choice is scored on."),
        column("offset_words", Integer, "The commonest number of words between the two, that of neighbours being 1, in the documents to choose by."),
        probability("offset_accuracy", "Share of the pairs to choose by that are so far apart, in [0, 1]; null if there are none.", null=True, kind=Double),
        probability("offset_test_accuracy", "The same share of the pairs of the test.", null=True, kind=Double),
        *(added(HEAD_RELATION, f"n_left_out_{reason}", BigInteger, f"Such pairs that are left out, {why}") for reason, why in LEFT_OUT.items()),
        one_of("looks_at", terms.LOOKS),
        comment="Relations between words of a text, and how often the word a fixed number of words before is the other one.",
        grain=("run_id", "relation", "looks_at"),
        sort=("run_id", "relation", "looks_at"),
        filled_by=HEAD_RELATION,
        bytes_a_row=0,
    )
    table(
        "head_relation",
        m,
        run_id(),
        relation(),
        looks_at(),
        layer(),
        head(),
        probability(
            "accuracy",
            "Share of the pairs to choose by in which the later word puts more weight on the other than on any word before it in the sentence; null if "
            "there are none. Of a word's tokens weights to it are summed and those from it averaged; index 0 is no word.",
            null=True,
        ),
        probability("test_accuracy", "The same share of the pairs of the test.", null=True),
        one_of("looks_at", terms.LOOKS),
        comment="How often attention heads look from a word at one that a relation joins it to (Clark et al. 2019).",
        grain=("run_id", "relation", "looks_at", "layer", "head"),
        sort=("run_id", "relation", "looks_at", "layer", "head"),
        filled_by=HEAD_RELATION,
        bytes_a_row=8,
    )

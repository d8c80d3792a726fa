"""How far word vectors agree with people: analogies answered, and similarities ranked."""

from sqlalchemy import BigInteger, Double, MetaData, String

from schema import terms
from schema.columns import FilledBy, column, one_of, table
from schema.tables.token_vector import SPACE

ORDER = 165
WORD_TEST = FilledBy("word_test", "--model … --word-tests")


def tables(m: MetaData, _: int) -> None:
    table(
        "analogy_score",
        m,
        column("space", String, SPACE),
        column("section", String, "Section of questions-words (Mikolov et al. 2013), such as family or gram3-comparative."),
        column("method", String, "add: 3CosAdd of vectors as they are; add_centred: less their mean; multiply: 3CosMul of vectors as they are."),
        column("n_asked", BigInteger, "Questions whose four words are single tokens."),
        column("n_left_out", BigInteger, "Questions with a word of several tokens: not asked."),
        column("n_right", BigInteger, "Asked, and answered by the fourth word in any spelling; the three words given, in any spelling, are no answers."),
        column("n_right_of_all", BigInteger, "The same where the three words given are answers too: mostly one of them is nearest, and nothing is told."),
        one_of("space", terms.TOKEN_SPACES),
        one_of("method", terms.ANALOGIES),
        comment="Analogies that a model's word vectors answer, by section.",
        grain=("space", "section", "method"),
        sort=("space", "section", "method"),
        filled_by=WORD_TEST,
        bytes_a_row=0,
    )
    table(
        "similarity_score",
        m,
        column("space", String, SPACE),
        column("suite", String, "WordSim-353 (Finkelstein et al. 2002) or SimLex-999 (Hill et al. 2015), by the file's name."),
        column("n_pairs", BigInteger, "Pairs whose two words are single tokens."),
        column("n_left_out", BigInteger, "Pairs with a word of several tokens."),
        column(
            "spearman", Double, "Spearman's rank correlation of centred cosines with what people said, in [-1, 1]; null for fewer than three pairs.", null=True
        ),
        column("spearman_raw", Double, "The same of cosines of vectors as they are.", null=True),
        one_of("space", terms.TOKEN_SPACES),
        comment="How a model's word vectors rank pairs of words by likeness, beside people.",
        grain=("space", "suite"),
        sort=("space", "suite"),
        filled_by=WORD_TEST,
        bytes_a_row=0,
    )

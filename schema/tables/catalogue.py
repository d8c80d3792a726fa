"""What an atlas is of and how it came to be: the model and its vocabulary, the texts, the runs, and what each table held when it was written."""

from sqlalchemy import BigInteger, Boolean, DateTime, Double, Integer, LargeBinary, MetaData, PrimaryKeyConstraint, String

from schema import terms
from schema.columns import REGISTRATION, Json, column, nonnegative, one_of, table
from schema.table_digests import COMMENT, COMMENTS, STORED

ORDER = 0


def tables(m: MetaData, _: int) -> None:
    model_tables(m)
    text_tables(m)
    run_tables(m)
    digest_tables(m)


def model_tables(m: MetaData) -> None:
    table(
        "model",
        m,
        column("name", String, "Hub id, folder or file the weights came from."),
        column("revision", String, "Commit of the hub repository; for local weights the first 12 digits of weights_sha256."),
        column("model_type", String, "Hugging Face model_type, the key of its entry in ingest/model/architectures.py."),
        column("n_layers", Integer, "Number of transformer blocks."),
        column("d_model", Integer, "Width of the residual stream."),
        column("d_ffn", Integer, "Neurons (keys, values) per layer."),
        column("n_heads", Integer, "Attention heads per layer; 0 in a model whose heads cannot be read."),
        column("n_kv_heads", Integer, "Heads that have their own attention keys and values; less than n_heads in grouped-query attention."),
        column("d_head", Integer, "Width of one attention head; 0 where n_heads is 0."),
        column("d_vocab", Integer, "Rows of the output embedding."),
        column("activation", String, "Activation function of the FFN, as the model's configuration names it."),
        column("is_gated", Boolean, "Each neuron has a gate key and an up key (SwiGLU, GeGLU); its coefficient is act(gate·x)·(up·x)."),
        column("is_parallel", Boolean, "Attention and FFN both read resid_pre; resid_mid is then the virtual resid_pre + attn_out."),
        column("is_ffn_output_normed", Boolean, "A norm follows the FFN: each sub-update carries its gain and its frozen 1/rms."),
        column("is_tied", Boolean, "The output embedding is the input embedding."),
        column("dtype", String, "Number format of the forward pass; reductions, norms, scores and softmax are float32."),
        column("weights_sha256", String, "SHA-256 over names, shapes and bytes of all parameters as loaded."),
        column("schema_version", Integer, "Version of the tables in this file."),
        comment="The one model of this atlas.",
        grain=(),
        sort=(),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )
    table(
        "model_fact",
        m,
        column("layer", Integer, "The layer; null for a fact of the whole model, or one that all layers share.", null=True),
        column("fact", String, "Part and name of the fact, such as ffn.gate (ingest/model/facts.py says what each means)."),
        column("value", String, "Path of a module, name, or number as JSON; null for what the model does not have.", null=True),
        column("source", String, "listed: the family's entry says so. recognised: found from the model's numbers."),
        column("identity", String, "Equation that fails if the fact is wrong (docs/models.md); null where none shows it.", null=True),
        nonnegative(
            "error", "Largest relative error of that equation over layers and positions of the probe texts; null until it is checked.", null=True, kind=Double
        ),
        one_of("source", terms.FACT_SOURCES),
        comment="By which facts the model is read: module paths of its stream, attention and FFNs, and how these compute.",
        grain=("layer", "fact"),
        sort=("layer", "fact"),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )
    table(
        "token",
        m,
        column("token_id", Integer, "Row of the output embedding; also the id the tokenizer gives."),
        column("text", String, "The token's characters, its leading space included; bytes that are no whole character show as ⟨F0 9F⟩."),
        column("bytes", LargeBinary, "The token's exact bytes (UTF-8); null for embedding rows that no token uses.", null=True),
        column("is_special", Boolean, "A control token (BOS, EOS, padding, chat markers), not text."),
        column("starts_word", Boolean, "Begins with white space and continues with a letter or digit."),
        column("is_stop_word", Boolean, "An English function word (list: ingest/text/words.py), in any case, spaces aside."),
        column("is_punctuation", Boolean, "Only punctuation and symbols, spaces aside."),
        PrimaryKeyConstraint("token_id"),
        comment="The vocabulary, one row per row of the output embedding.",
        grain=("token_id",),
        sort=("token_id",),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )


def text_tables(m: MetaData) -> None:
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


def run_tables(m: MetaData) -> None:
    table(
        "run",
        m,
        column("run_id", Integer, "Counted from 0 in the order of ingest."),
        column("kind", String, "Name of the pass: weights (from the weights alone), sweep (every position), trace (sampled positions) and so on."),
        column("corpus_id", Integer, "The corpus it read; null for weights and map, which are of the model or of all traces.", "corpus.corpus_id", null=True),
        column("settings", Json, "JSON: everything needed to repeat the run."),
        column(
            "versions",
            Json,
            "JSON: versions of python, torch, duckdb and others, and of this project; GPUs and their driver; what counted coefficients.",
        ),
        column("seed", BigInteger, "Seed of every random choice in the run."),
        column("device", String, "Where the forward pass ran."),
        column("n_shards", Integer, "Shards the run consists of."),
        column("started_at", DateTime(timezone=True), "When the run was first started, UTC."),
        column("finished_at", DateTime(timezone=True), "When its last shard was loaded, UTC; null while running.", null=True),
        column("status", String, "running (resumable) or finished."),
        PrimaryKeyConstraint("run_id"),
        one_of("status", terms.RUN_STATUSES),
        comment="One ingest run.",
        grain=("run_id",),
        sort=("run_id",),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )
    table(
        "shard",
        m,
        column("run_id", Integer, "The run it belongs to.", "run.run_id"),
        column("shard_id", Integer, "Counted from 0 within the run."),
        column("n_rows", Json, "JSON: rows of each table in the shard as the worker wrote it."),
        column("sha256", String, "SHA-256 over the shard's files."),
        column("worker", String, "Host and process that computed it."),
        column("committed_at", DateTime(timezone=True), "When its transaction was committed, UTC."),
        PrimaryKeyConstraint("run_id", "shard_id"),
        comment="The manifest: one row per shard that is in the atlas, written in the same transaction as its data.",
        grain=("run_id", "shard_id"),
        sort=("run_id", "shard_id"),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )


def digest_tables(m: MetaData) -> None:
    table(
        STORED,
        m,
        *(column(name, BigInteger if name == "n_rows" else String, comment) for name, comment in COMMENTS.items()),
        comment=COMMENT,
        grain=("table_name",),
        sort=("table_name",),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )

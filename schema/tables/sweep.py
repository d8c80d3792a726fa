"""What is kept of every position of a corpus: statistics and triggers of neurons, predictions, and keys for retrieval."""

from sqlalchemy import REAL, BigInteger, Double, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import Counts, FilledBy, Levels, added, column, corpus_id, layer, neuron, nonnegative, one_of, position_id, probability, table
from schema.key_files import KEY_DTYPE, KEY_SITE

ORDER = 40

SWEEP = FilledBy("sweep", "--model … --corpus …", unit="positions", counted="SELECT c.n_positions FROM corpus AS c WHERE c.corpus_id = r.corpus_id")
OF_CORPUS = "SELECT c.n_positions FROM corpus AS c WHERE c.corpus_id = r.corpus_id"
PREDICTION = FilledBy("prediction", "--model … --corpus …", unit="positions", counted=OF_CORPUS)
NGRAM = FilledBy("ngram", "--model … --corpus … --ngram-split …", unit="positions", counted=OF_CORPUS)
KEYS = FilledBy("keys", "--model … --corpus … --keys", unit="positions", counted="SELECT c.n_positions FROM corpus AS c WHERE c.corpus_id = r.corpus_id")


def tables(m: MetaData, _: int) -> None:
    sweep_tables(m)
    prediction_tables(m)
    keys_tables(m)


def sweep_tables(m: MetaData) -> None:
    edges = f"{terms.HISTOGRAM_BINS} fixed bins, two an octave from 2^{terms.HISTOGRAM_MIN_EXPONENT} to 2^{terms.HISTOGRAM_MAX_EXPONENT} for each sign"
    table(
        "neuron_statistics",
        m,
        corpus_id(),
        layer(),
        neuron(),
        column("n_positions", BigInteger, "Positions summed over: those of the corpus that the sweep counts (view swept_corpus)."),
        column(
            "n_active", BigInteger, "Positions with coefficient > 0. For ReLU that is 'active' as the papers mean it; for other activations it is the sign."
        ),
        column("mean", Double, "Mean coefficient."),
        column("std", Double, "Standard deviation of the coefficient over the positions (divided by n)."),
        column("min", REAL, "Smallest coefficient."),
        column("max", REAL, "Largest coefficient."),
        column("histogram", Counts, f"Counts of coefficients in {edges}; view histogram_bin has the edges."),
        comment="Coefficients of each neuron over a whole corpus, without the first positions of each sequence that the sweep left out (view swept_corpus).",
        grain=("corpus_id", "layer", "neuron"),
        sort=("corpus_id", "layer", "neuron"),
        filled_by=SWEEP,
        bytes_a_row=143,
        is_merged=True,
    )
    table(
        "trigger",
        m,
        corpus_id(),
        layer(),
        neuron(),
        column("tail", String, "max: largest coefficients, rank 1 the largest; min: smallest, rank 1 the smallest."),
        column("rank", SmallInteger, "From 1 to k; ties go to the smaller position_id."),
        column("position_id", BigInteger, "Where the coefficient was read: the prefix ends here.", "position.position_id"),
        column("coefficient", REAL, "m_i, signed: what multiplies the value."),
        column(
            "preceding",
            Levels,
            f"m_i at up to {terms.PRECEDING} tokens before, the farthest first, in units of preceding_scale; null after rank {terms.PRECEDING_RANKS}.",
            null=True,
        ),
        column("preceding_scale", REAL, "The largest |m_i| among them, divided by 127; null after that rank.", null=True),
        added(
            SWEEP,
            "context",
            BigInteger,
            "Number of its last tokens, as many as --distinct says: no other trigger of the key and tail has the same. Null where the sweep keeps them all",
        ),
        one_of("tail", terms.TAILS),
        comment="The exact top-k of the positions that the sweep counts, of every key over a corpus, both tails (Geva et al. 2021, section 3).",
        grain=("corpus_id", "layer", "neuron", "tail", "rank"),
        sort=("corpus_id", "layer", "neuron", "tail", "rank"),
        filled_by=SWEEP,
        bytes_a_row=21,
        is_merged=True,
    )


def prediction_tables(m: MetaData) -> None:
    table(
        "position_prediction",
        m,
        position_id(),
        nonnegative("surprisal", "Negative log-probability of the token that follows, in nats; null where none does.", null=True),
        nonnegative("entropy", "Entropy of the probabilities of all tokens, in nats."),
        column(
            "next_token_rank",
            Integer,
            "Rank of the token that follows, 1 the most probable; ties go to the lower token_id; null where none follows.",
            null=True,
        ),
        column("top_token_id", Integer, "The most probable token; ties go to the lower token_id.", "token.token_id"),
        probability("top_prob", "Its probability, in [0, 1]."),
        probability("starts_word_prob", "Probability of all tokens together that begin with white space or are special: behind them no word goes on."),
        comment="The model's own prediction at every position, by a softmax of its logits in float32.",
        grain=("position_id",),
        sort=("position_id",),
        filled_by=PREDICTION,
        bytes_a_row=24,
    )
    table(
        "ngram_prediction",
        m,
        position_id(),
        column("ngram_order", SmallInteger, "Tokens of the longest n-gram that was counted, the predicted one included: 3 or 5."),
        nonnegative("surprisal", "Negative log-probability of the token that follows, in nats."),
        column("matched_order", SmallInteger, "The same of the longest whose context the counted text has: 1 + tokens of context; 1 where it has none."),
        comment="What counting alone predicts: interpolated modified Kneser-Ney over the model's own tokens (Chen and Goodman 1998), counted in other text.",
        grain=("position_id", "ngram_order"),
        sort=("position_id", "ngram_order"),
        filled_by=NGRAM,
        bytes_a_row=9,
    )


def keys_tables(m: MetaData) -> None:
    table(
        "key_file",
        m,
        corpus_id(),
        column("first_position_id", BigInteger, "The first of its entries.", "position.position_id"),
        column("last_position_id", BigInteger, "The last of its entries; those of other files lie before or behind.", "position.position_id"),
        column("name", String, "Name of the file in the folder NAME.keys beside the atlas NAME.duckdb."),
        column("key_site", String, "Which state a key is: ffn_in, the input of the up projection (of the FFN's norm, where one precedes, its output)."),
        layer(),
        column("min_index", Integer, "Positions of a smaller index in their sequence are no entries: they have seen little."),
        column("dtype", String, "Number format of the stored keys."),
        column("n_entries", BigInteger, "Entries in the file: positions that a token follows."),
        column("n_bytes", BigInteger, "Length of the file in bytes."),
        column("sha256", String, "SHA-256 of the file: keys of another model or of an earlier ingest have another."),
        one_of("key_site", (KEY_SITE,)),
        one_of("dtype", (KEY_DTYPE,)),
        comment="Files of keys beside the atlas, a row each. A key is the state at a position; its value is the token that follows (Khandelwal et al. 2020).",
        grain=("corpus_id", "first_position_id"),
        sort=("corpus_id", "first_position_id"),
        filled_by=KEYS,
        bytes_a_row=0,
    )

"""What is kept of every position of a corpus: statistics of each neuron, and its triggers."""

from sqlalchemy import REAL, BigInteger, Double, MetaData, SmallInteger, String

from schema import terms
from schema.columns import Counts, FilledBy, Levels, added, column, corpus_id, layer, neuron, one_of, table

ORDER = 40
SWEEP = FilledBy("sweep", "--model … --corpus …", unit="positions", counted="SELECT c.n_positions FROM corpus AS c WHERE c.corpus_id = r.corpus_id")


def tables(m: MetaData, _: int) -> None:
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

"""What the weights tell of circuits: what each head copies and looks for, its directions, which heads read which heads, and neurons which neurons."""

from sqlalchemy import DOUBLE, REAL, BigInteger, Column, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, column, layer, neuron, nonnegative, one_of, probability, table

ORDER = 110
CIRCUIT = FilledBy("circuit", "--model … --circuit", unit="heads", counted="SELECT count(*) FROM head")

DISTANCES = (
    "RoPE is averaged over distances: for each head as its attention_distance in the runs that run.settings names as reads.attention_distance (its own "
    "position left out, within a bin as pairs of positions lie), else over all pairs of a position and an earlier one in a sequence of settings.context "
    "tokens; where settings name neither, over all distances up to the longest context that the model was made for, alike."
)
"""What QK means under RoPE in one table: said once, beside each."""


def head() -> list[Column]:
    return [layer(), column("head", SmallInteger, "Attention head of the layer, counted from 0; its address is L<layer>H<head>.")]


def direction_rank() -> Column:
    return column("direction_rank", SmallInteger, "From 1 to 8, by falling singular value.")


def tables(m: MetaData, _: int) -> None:
    table(
        "head",
        m,
        *head(),
        column("kv_head", SmallInteger, "Whose keys and values it uses, counted from 0 within the layer; heads share one in grouped-query attention."),
        column("window_size", Integer, "Positions that it sees, its own included; null where it sees all before it.", null=True),
        nonnegative("qk_norm", "Frobenius norm of W_QK = W_Qᵀ·W_K, norms folded in, without rotation and score scale."),
        nonnegative("ov_norm", "Frobenius norm of W_OV = W_O·W_V, norms folded in."),
        nonnegative("bias_norm", "Length of what it writes wherever it looks, W_O·(b_V + W_V·β), in residual-stream units."),
        column("copying_token", REAL, "Σ Re λ / Σ |λ| of Û·W_OV·X̂ᵀ, X̂ the tokens' own vectors, Û centred over the vocabulary, in [-1, 1]; 1: it copies."),
        column(
            "copying_effective",
            REAL,
            "The same with the tokens as the layer finds them: behind the first block, looking at themselves; in layer 0 their own vectors.",
        ),
        column("copying_uncentred", REAL, "copying_token with Û as it is, the paper's own, in [-1, 1]: what does not depend on the token counts too."),
        column("stream_ratio", REAL, "Σ Re λ / Σ |λ| of W_OV itself, in [-1, 1]; -1: it takes out of the stream what it reads there."),
        column("matching", REAL, "Σ Re λ / Σ |λ| of X̂·W_QK·X̂ᵀ, sources centred, tokens as the layer finds them, unrotated; 1: it looks for its own token."),
        probability("own_first_share", "Share of 500 tokens spread over the vocabulary whose own logit W_OV raises above all others, in [0, 1]."),
        comment="What its weights tell of one attention head (Elhage et al. 2021, and its erratum): what it could do, not what it does.",
        grain=("layer", "head"),
        sort=("layer", "head"),
        filled_by=CIRCUIT,
        bytes_a_row=40,
    )
    table(
        "head_eigenvalue",
        m,
        *head(),
        column("spectrum", String, "Of which product: those of head.copying_token, copying_effective, stream_ratio and matching."),
        column("rank", SmallInteger, "From 1 to d_head, by falling modulus; ties by falling real part."),
        column("real", DOUBLE, "Re λ."),
        column("imaginary", DOUBLE, "Im λ."),
        one_of("spectrum", terms.HEAD_SPECTRA),
        comment="Eigenvalues of a head's circuits, all that are not zero for certain (Elhage et al. 2021, copying).",
        grain=("layer", "head", "spectrum", "rank"),
        sort=("layer", "head", "spectrum", "rank"),
        filled_by=CIRCUIT,
        bytes_a_row=19,
    )
    table(
        "head_direction",
        m,
        *head(),
        column("circuit", String, "ov: from what it reads to what it writes, W_O·W_V; qk: from query to key, W_Qᵀ·W_K, unrotated."),
        direction_rank(),
        nonnegative("sigma", "Singular value, norms folded in, in the units of ov_norm and qk_norm."),
        probability("share", "σ² over the sum of all σ² of the circuit, in [0, 1]."),
        probability("gap", "(σ - next σ)/σ, in [0, 1]; under 0.05 only the span of both directions means anything."),
        one_of("circuit", terms.HEAD_CIRCUITS),
        comment="The first singular directions of a head's circuits.",
        grain=("layer", "head", "circuit", "direction_rank"),
        sort=("layer", "head", "circuit", "direction_rank"),
        filled_by=CIRCUIT,
        bytes_a_row=12,
    )
    table(
        "head_direction_token",
        m,
        *head(),
        column("circuit", String, "ov or qk, as in head_direction."),
        direction_rank(),
        column("side", String, "Of ov what is read and what is written, of qk query and key. All but what is written are tokens as the layer finds them."),
        column("tail", String, "max: largest scores; min: most negative. Both sides flip sign together, so max goes with max and min with min."),
        column("rank", SmallInteger, "From 1 to 10, away from the other end; ties go to the lowest token_id."),
        column("token_id", Integer, "The token.", "token.token_id"),
        column("score", REAL, "x̂·direction, or û·direction of what is written (logit units), less the vocabulary's mean."),
        one_of("circuit", terms.HEAD_CIRCUITS),
        one_of("side", terms.HEAD_SIDES),
        one_of("tail", terms.TAILS),
        comment="The tokens at both ends of a head's singular directions.",
        grain=("layer", "head", "circuit", "direction_rank", "side", "tail", "rank"),
        sort=("layer", "head", "circuit", "direction_rank", "side", "tail", "rank"),
        filled_by=CIRCUIT,
        bytes_a_row=11,
    )
    table(
        "composition",
        m,
        column("kind", String, "Through what the later head reads the earlier one: k (keys), q (queries) or v (values)."),
        *head(),
        column("from_layer", SmallInteger, "Layer of the earlier head."),
        column("from_head", SmallInteger, "The earlier head."),
        probability("score", "‖reading · writing‖ / (‖reading‖·‖writing‖), Frobenius, without rotation, in [0, 1]; by chance 1/√d_model."),
        probability("score_averaged", "The same with RoPE averaged over distances, in [0, 1]; null for v, and without RoPE.", null=True),
        column(
            "matching",
            REAL,
            "head.matching for sources read through the earlier head, in [-1, 1]; of k, and of each reader's 32 largest scores; else null.",
            null=True,
        ),
        one_of("kind", terms.COMPOSITIONS),
        comment="How much of what a head reads a head of an earlier layer writes: every pair (Elhage et al. 2021 and its erratum of 2023). "
        f"In score_averaged {DISTANCES}",
        grain=("kind", "layer", "head", "from_layer", "from_head"),
        sort=("kind", "layer", "head", "from_layer", "from_head"),
        filled_by=CIRCUIT,
        bytes_a_row=12,
    )
    virtual_weights(m)


def virtual_weights(m: MetaData) -> None:
    side = "key or gate: its own key (up key) or gate key reads the other's value; read_by_key or read_by_gate: the other's reads its value."
    table(
        "virtual_weight",
        m,
        layer(),
        neuron(),
        column("side", String, side),
        column("rank", SmallInteger, "From 1 to 10, by falling modulus; ties go to the lower layer and neuron."),
        column("other_layer", SmallInteger, "Layer of the other neuron: an earlier one where its value is read, else a later one."),
        column("other_neuron", Integer, "The other neuron."),
        column("weight", REAL, "k̂·v, the gain before the key folded in; of values with a norm behind them only signs, and ratios of one value, mean anything."),
        column("cosine", REAL, "k̂·v over both lengths, in [-1, 1]; by chance its standard deviation is 1/√d_model."),
        one_of("side", terms.VIRTUAL_SIDES),
        comment="The neurons that each neuron reads most, and that read it most (Elhage et al. 2021, virtual weights).",
        grain=("layer", "neuron", "side", "rank"),
        sort=("layer", "neuron", "side", "rank"),
        filled_by=CIRCUIT,
        bytes_a_row=11,
    )
    table(
        "virtual_weight_total",
        m,
        layer(),
        neuron(),
        column("side", String, side),
        column("n", BigInteger, "Neurons of earlier, or later, layers."),
        column("sum_squares", DOUBLE, "Sum of the squared virtual weights with all of them, of which virtual_weight has the ten largest."),
        column(
            "folded_cosine", REAL, "Cosine of its own folded key (or gate key) and its value, in [-1, 1]; null where the side is that of another.", null=True
        ),
        one_of("side", terms.VIRTUAL_SIDES),
        comment="All virtual weights of a neuron summed, and how its own key and value lie to each other.",
        grain=("layer", "neuron", "side"),
        sort=("layer", "neuron", "side"),
        filled_by=CIRCUIT,
        bytes_a_row=17,
    )

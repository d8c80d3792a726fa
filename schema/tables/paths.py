"""Paths through attention alone (Elhage et al. 2021), and how well a model of such paths predicts."""

from sqlalchemy import REAL, BigInteger, Double, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, added, column, corpus_id, head, layer, nonnegative, one_of, probability, table
from schema.tables.circuit import DISTANCES

ORDER = 130

DIRECT_PATH = FilledBy("direct_path", "--model … --corpus … --direct-path")
TERM_LOSS = FilledBy("term_loss", "--model … --corpus … --term-loss")
TRAINING_CURVE = FilledBy("training_curve", "--model …")
SKIP_TRIGRAM = FilledBy("skip_trigram", "--model … --corpus … --skip-trigram 0")

F = (
    "the score of a destination for the source, before a soft-cap, RoPE averaged over the distances that the settings of its run name, less its mean over "
    "sources, each as often as in the text"
)
G = "what reading the source adds to a logit, less the mean over all tokens, before the final norm's scale"


def tables(m: MetaData, _: int) -> None:
    direct_path_tables(m)
    skip_trigram_tables(m)
    term_loss_tables(m)


def direct_path_tables(m: MetaData) -> None:
    table(
        "direct_path_token",
        m,
        column("token_id", Integer, "The token that is read.", "token.token_id"),
        column("rank", SmallInteger, "From 1 to 10; ties go to the lowest token_id."),
        column("next_token_id", Integer, "A token that it promotes.", "token.token_id"),
        column("logit", REAL, "What the output head gives the token's own vector, over its own scale in the final norm, as if there were no blocks, logits."),
        probability("prob", "softmax of these logits over the vocabulary, in [0, 1]."),
        comment="What follows each token by the direct path, from embedding to output head past all blocks (Elhage et al. 2021, zero-layer transformers).",
        grain=("token_id", "rank"),
        sort=("token_id", "rank"),
        filled_by=DIRECT_PATH,
        bytes_a_row=10,
    )
    table(
        "direct_path",
        m,
        corpus_id(),
        column("token_id", Integer, "A token of the corpus that another follows; BOS, which is in no text, is none.", "token.token_id"),
        column("n", BigInteger, "How often another follows it."),
        column("follower_id", Integer, "The token that follows it most often; the lowest token_id where several do.", "token.token_id"),
        column("follower_n", BigInteger, "How often that one does."),
        column("follower_rank", Integer, "Rank of that one among what the direct path promotes, from 1; ties count lower ids first."),
        column("follower_log_prob", REAL, "Log-probability that the direct path gives it, nats."),
        nonnegative("kl_direct", "Σ p·ln(p/q), nats, p the shares of what follows the token in the corpus, q the direct path's probabilities."),
        nonnegative("kl_unigram", "The same for q the shares of the tokens that follow any: what knowing nothing of the token misses."),
        comment="How near the direct path is to the bigrams of a corpus. Only a model without blocks should match: elsewhere it is what the blocks start from.",
        grain=("corpus_id", "token_id"),
        sort=("corpus_id", "token_id"),
        filled_by=DIRECT_PATH,
        bytes_a_row=19,
    )


def skip_trigram_tables(m: MetaData) -> None:
    circuit = "qk: destinations that look at the source; ov: tokens that it promotes."
    table(
        "circuit_token",
        m,
        layer(),
        head(),
        column("circuit", String, circuit),
        column("source_token_id", Integer, "The token that is looked at.", "token.token_id"),
        column("rank", SmallInteger, "From 1 to 10, by falling score; ties go to the lowest token_id."),
        column("token_id", Integer, "The destination (qk) or promoted token (ov), that the text has as often as --skip-trigram-seen asks.", "token.token_id"),
        column("score", REAL, f"Of qk {F}; of ov {G}."),
        one_of("circuit", terms.HEAD_CIRCUITS),
        comment="What a head's circuits make of each source token: the ten first of a row of its QK and of its OV table (Elhage et al. 2021, skip-trigrams). "
        f"{DISTANCES} The soft-cap of scores that Gemma-2 has is in no QK table.",
        grain=("layer", "head", "circuit", "source_token_id", "rank"),
        sort=("layer", "head", "circuit", "source_token_id", "rank"),
        filled_by=SKIP_TRIGRAM,
        bytes_a_row=7,
    )
    table(
        "circuit_source",
        m,
        layer(),
        head(),
        column("circuit", String, circuit),
        column("source_token_id", Integer, "The token that is looked at.", "token.token_id"),
        added(SKIP_TRIGRAM, "n_source", BigInteger, "How often the text had it: its weight in the mean over sources; 0 of all where there was no text"),
        column("mean", REAL, "Mean of its row: of qk over destinations, how much all look at it; of ov over promoted tokens, which its scores are less."),
        nonnegative("std", "Standard deviation of its row, divided by the number of tokens."),
        one_of("circuit", terms.HEAD_CIRCUITS),
        comment="How the whole rows lie of which circuit_token has the first: by them a score is told to be large. The same distances, and no soft-cap.",
        grain=("layer", "head", "circuit", "source_token_id"),
        sort=("layer", "head", "circuit", "source_token_id"),
        filled_by=SKIP_TRIGRAM,
        bytes_a_row=11,
    )
    table(
        "skip_trigram",
        m,
        layer(),
        head(),
        column("destination_tail", String, "max: destinations that look at the source more than at others; min: less."),
        column("out_tail", String, "max: tokens that it promotes; min: tokens that it suppresses."),
        column("rank", SmallInteger, "From 1 to 100, by falling modulus; ties go to the lowest source, then to the larger destination score."),
        column("source_token_id", Integer, "The token that is looked at.", "token.token_id"),
        column("destination_token_id", Integer, "The token that looks.", "token.token_id"),
        column("out_token_id", Integer, "The token that it promotes or suppresses.", "token.token_id"),
        column("destination_score", REAL, f"{F[0].upper()}{F[1:]}."),
        column("out_score", REAL, f"{G[0].upper()}{G[1:]}, logits."),
        one_of("destination_tail", terms.TAILS),
        one_of("out_tail", terms.TAILS),
        comment="The largest products of both scores, of all triples of tokens that the text has as often as --skip-trigram-seen asks: "
        "what a head's weights say of a token after another that stood before. The distances of circuit_token, and no soft-cap.",
        grain=("layer", "head", "destination_tail", "out_tail", "rank"),
        sort=("layer", "head", "destination_tail", "out_tail", "rank"),
        filled_by=SKIP_TRIGRAM,
        bytes_a_row=15,
    )


def term_loss_tables(m: MetaData) -> None:
    table(
        "term_loss",
        m,
        corpus_id(),
        column(
            "term",
            String,
            "What predicts. unigram: how often each token is in the corpus. paths: those through at most most_heads heads. layer: the direct path and the "
            "single heads of one layer; other_layers: and those of all layers but one. model: the model itself.",
        ),
        column("most_heads", SmallInteger, "Heads on a path, at most: 0 the direct path, 1 single heads, 2 and more virtual heads; null of others.", null=True),
        column("layer", SmallInteger, "Transformer block, counted from 0, whose heads are there alone, or are left out; null of others.", null=True),
        nonnegative("loss", "Mean negative log-probability of the tokens that follow, in nats; attention patterns are the model's own.", kind=Double),
        column("n", BigInteger, "Predictions that it is the mean of: of the same sampled sequences in all rows of a corpus."),
        one_of("term", terms.LOSS_TERMS),
        comment="How well a model of attention alone predicts with some of its paths (Elhage et al. 2021, term importance).",
        grain=("corpus_id", "term", "most_heads", "layer"),
        sort=("corpus_id", "term", "most_heads", "layer"),
        filled_by=TERM_LOSS,
        bytes_a_row=0,
    )
    table(
        "training_curve",
        m,
        column("step", Integer, "Steps of training before the check."),
        nonnegative("first_block", "Loss of random tokens that nothing tells, in nats."),
        nonnegative("second_block", "Loss of the same tokens when they come again, in nats."),
        probability("induction", "Largest of all heads: mean weight, in the second block, on the token after the first copy of the one that it looks from."),
        column("induction_layer", SmallInteger, "Layer of that head, counted from 0."),
        column("induction_head", SmallInteger, "That head, counted from 0."),
        probability("previous", "Largest of all heads: mean weight on the token before."),
        column("previous_layer", SmallInteger, "Layer of that head, counted from 0."),
        column("previous_head", SmallInteger, "That head, counted from 0."),
        comment="What a model made of random tokens read twice while it was trained, as the file curve.json beside its weights says (Olsson et al. 2022).",
        grain=("step",),
        sort=("step",),
        filled_by=TRAINING_CURVE,
        bytes_a_row=0,
    )

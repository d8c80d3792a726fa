"""What follows each token by the direct path, and how near that is to the bigrams of a corpus."""

from sqlalchemy import REAL, BigInteger, Integer, MetaData, SmallInteger

from schema.columns import FilledBy, column, corpus_id, nonnegative, probability, table

ORDER = 130
DIRECT_PATH = FilledBy("direct_path", "--model … --corpus … --direct-path")


def tables(m: MetaData, _: int) -> None:
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

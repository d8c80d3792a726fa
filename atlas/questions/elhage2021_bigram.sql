-- title:  How near the direct path is to the bigrams of a corpus
-- source: Elhage et al. 2021, zero-layer transformers: what the direct path models are bigram statistics
-- grain:  corpus_id, n_tokens
-- n:      n_followed
-- column: corpus_id: the corpus
-- column: n_tokens: over so many of its commonest tokens, or all of them
-- column: n_followed: how often another token follows one of them
-- column: top_share: share of these tokens whose commonest follower the direct path puts first, in [0, 1]
-- column: top10_share: share of them of which it is among the first ten, in [0, 1]
-- column: follower_log_prob: mean log-probability that the direct path gives the commonest follower, nats
-- column: kl_direct: KL of what follows a token from the direct path's probabilities, nats, mean over occurrences
-- column: kl_unigram: the same from the frequencies of all tokens, which knows nothing of the token
-- chart:  bar(n_tokens, kl_direct)
--
-- Below kl_unigram the direct path knows bigrams. Above it, as in models with many layers, it is no prediction by itself: the blocks make one of it.
CREATE OR REPLACE MACRO elhage2021_bigram() AS TABLE
WITH
ranked AS (
    SELECT
        d.*,
        row_number() OVER (PARTITION BY d.corpus_id ORDER BY d.n DESC, d.token_id) AS frequency_rank,
        count(*) OVER (PARTITION BY d.corpus_id) AS n_all
    FROM direct_path AS d
),

band AS (
    SELECT DISTINCT
        r.corpus_id,
        least(b.n_tokens, r.n_all) AS n_tokens
    FROM ranked AS r
    CROSS JOIN (VALUES (10), (100), (500), (5000), (2 ** 31)) AS b (n_tokens)
)

SELECT
    b.corpus_id,
    CAST(b.n_tokens AS BIGINT) AS n_tokens,
    CAST(sum(r.n) AS BIGINT) AS n_followed,
    avg(CASE WHEN r.follower_rank = 1 THEN 1 ELSE 0 END) AS top_share,
    avg(CASE WHEN r.follower_rank <= 10 THEN 1 ELSE 0 END) AS top10_share,
    avg(r.follower_log_prob) AS follower_log_prob,
    sum(r.n * r.kl_direct) / sum(r.n) AS kl_direct,
    sum(r.n * r.kl_unigram) / sum(r.n) AS kl_unigram
FROM band AS b
INNER JOIN ranked AS r ON b.corpus_id = r.corpus_id AND b.n_tokens >= r.frequency_rank
GROUP BY b.corpus_id, b.n_tokens
ORDER BY b.corpus_id, b.n_tokens;

-- title:  What follows a token by the direct path, and in the corpus
-- source: Elhage et al. 2021, zero-layer transformers: the direct path from embedding to output head models bigrams
-- grain:  token_id, next_token_id
-- n:      n_followed
-- param:  token (text): the token's exact text, its leading space optional
-- param:  n (integer, 10): how many followers of each kind; of the direct path an atlas keeps ten
-- param:  corpus (integer, NULL): one corpus_id; NULL counts over all corpora
-- column: token: the vocabulary's text of the token
-- column: next_token: a token that follows it
-- column: direct_rank: its rank by the direct path, from 1; null where it is not among the first
-- column: prob: its probability by the direct path, in [0, 1]; null likewise
-- column: corpus_rank: its rank among what follows the token in the text, from 1; null where it never does
-- column: n_following: how often it follows there
-- column: n_followed: how often any token follows it there
-- column: share: n_following / n_followed, in [0, 1]; null where nothing follows the token
-- column: token_id: the token
-- column: next_token_id: the follower
-- chart:  bar(direct_rank, prob)
--
-- Only a model without blocks is trained to match the text here: elsewhere this is what its blocks start from, and tied embeddings repeat the token.
CREATE OR REPLACE MACRO bigram_followers(token, n := 10, corpus := NULL) AS TABLE
WITH
asked AS (
    SELECT
        k.token_id,
        k.text
    FROM token AS k
    WHERE k.text = token OR k.text = ' ' || token
),

direct AS (
    SELECT t.*
    FROM direct_path_token AS t
    WHERE t.token_id IN (SELECT a.token_id FROM asked AS a)
),

counted AS (
    SELECT
        b.token_id,
        b.next_token_id,
        CAST(sum(b.n) AS BIGINT) AS n_following
    FROM bigram AS b
    WHERE b.token_id IN (SELECT a.token_id FROM asked AS a) AND (corpus IS NULL OR b.corpus_id = corpus)
    GROUP BY b.token_id, b.next_token_id
),

followed AS (
    SELECT
        c.*,
        row_number() OVER (PARTITION BY c.token_id ORDER BY c.n_following DESC, c.next_token_id) AS corpus_rank
    FROM counted AS c
),

whole AS (
    SELECT
        c.token_id,
        CAST(sum(c.n_following) AS BIGINT) AS n_followed
    FROM counted AS c
    GROUP BY c.token_id
),

beside AS (
    SELECT
        coalesce(d.token_id, f.token_id) AS token_id,
        coalesce(d.next_token_id, f.next_token_id) AS next_token_id,
        d.rank AS direct_rank,
        d.prob,
        f.corpus_rank,
        coalesce(f.n_following, 0) AS n_following
    FROM direct AS d
    FULL JOIN followed AS f ON d.token_id = f.token_id AND d.next_token_id = f.next_token_id
)

SELECT
    a.text AS token,
    k.text AS next_token,
    b.direct_rank,
    b.prob,
    b.corpus_rank,
    b.n_following,
    coalesce(w.n_followed, 0) AS n_followed,
    b.n_following / w.n_followed AS share,
    b.token_id,
    b.next_token_id
FROM beside AS b
INNER JOIN asked AS a ON b.token_id = a.token_id
INNER JOIN token AS k ON b.next_token_id = k.token_id
LEFT JOIN whole AS w ON b.token_id = w.token_id
WHERE b.direct_rank <= n OR b.corpus_rank <= n
ORDER BY b.token_id, b.direct_rank NULLS LAST, b.corpus_rank NULLS LAST;

-- title:  Rank, in each value's distribution, of the token that follows its key's top trigger
-- source: Geva et al. 2021, section 4.2 and figure 5: a box plot per layer
-- grain:  layer
-- n:      n_keys
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: layer: transformer block, from 0
-- column: min_rank: smallest rank, raw (E·v) like all that follow, from 1
-- column: lower_whisker: smallest rank within 1.5 interquartile ranges of the box
-- column: q1: lower quartile of the ranks
-- column: median: middle of the ranks
-- column: q3: upper quartile of the ranks
-- column: upper_whisker: largest rank within 1.5 interquartile ranges of the box
-- column: max_rank: largest rank, at most d_vocab
-- column: n_keys: keys counted
-- chart:  box(layer, median)
--
-- Rank 1 is the value's top token: the agreement of figure 4. Quartiles interpolate linearly between ranks.
-- Left out as in figure 4: keys whose top trigger ends its document, and keys that no text switches on.
CREATE OR REPLACE MACRO geva2021_fig5(corpus := NULL) AS TABLE
WITH
ranked AS (
    SELECT
        r.layer,
        r.value_rank
    FROM next_token_rank AS r
    INNER JOIN key_agreement AS a ON r.corpus_id = a.corpus_id AND r.layer = a.layer AND r.neuron = a.neuron
    WHERE
        a.agrees IS NOT NULL
        AND r.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM next_token_rank AS i), corpus := corpus) AS o)
),

box AS (
    SELECT
        r.layer,
        quantile_cont(r.value_rank, 0.25) AS q1,
        quantile_cont(r.value_rank, 0.5) AS median,
        quantile_cont(r.value_rank, 0.75) AS q3
    FROM ranked AS r
    GROUP BY r.layer
)

SELECT
    b.layer,
    min(r.value_rank) AS min_rank,
    min(r.value_rank) FILTER (r.value_rank >= b.q1 - 1.5 * (b.q3 - b.q1)) AS lower_whisker,
    b.q1,
    b.median,
    b.q3,
    max(r.value_rank) FILTER (r.value_rank <= b.q3 + 1.5 * (b.q3 - b.q1)) AS upper_whisker,
    max(r.value_rank) AS max_rank,
    count(*) AS n_keys
FROM box AS b
INNER JOIN ranked AS r ON b.layer = r.layer
GROUP BY b.layer, b.q1, b.median, b.q3
ORDER BY b.layer;

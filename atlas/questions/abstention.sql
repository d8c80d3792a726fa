-- title:  How right the model is where it may stay silent unless it is sure
-- source: table position_prediction; selective prediction (El-Yaniv and Wiener 2010): accuracy against coverage
-- grain:  threshold
-- n:      n_answered
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- param:  steps (integer, 20): thresholds between 0 and 1, 0 with them
-- column: threshold: it answers where its most probable token has at least this probability
-- column: n_answered: positions where it does; those at index 0, and those that no token follows, are left out
-- column: coverage: their share of all
-- column: accuracy: share of them where that token is the one that follows; null where it never answers
-- column: perplexity: exp(mean surprisal) of them
-- chart:  line(threshold, accuracy)
CREATE OR REPLACE MACRO abstention(corpus := NULL, steps := 20) AS TABLE
WITH
predicted AS (
    SELECT
        p.surprisal,
        CAST(p.top_prob AS DOUBLE) AS top_prob,
        CAST(p.next_token_rank = 1 AS INTEGER) AS is_right
    FROM scored_position AS p
    WHERE
        p.surprisal IS NOT NULL AND p.index > 0
        AND p.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM scored_position AS i), corpus := corpus) AS o)
),

thresholds AS (
    SELECT i.range / CAST(steps AS DOUBLE) AS threshold
    FROM range(steps) AS i
)

SELECT
    t.threshold,
    count(*) FILTER (p.top_prob >= t.threshold) AS n_answered,
    avg(CAST(p.top_prob >= t.threshold AS INTEGER)) AS coverage,
    avg(p.is_right) FILTER (p.top_prob >= t.threshold) AS accuracy,
    exp(avg(p.surprisal) FILTER (p.top_prob >= t.threshold)) AS perplexity
FROM thresholds AS t
CROSS JOIN predicted AS p
GROUP BY t.threshold
ORDER BY t.threshold;

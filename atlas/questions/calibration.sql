-- title:  Whether the model is right as often as it says
-- source: table position_prediction; expected calibration error over bins (Guo et al. 2017)
-- grain:  bin
-- n:      n_positions
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- param:  n_bins (integer, 15): bins
-- param:  mass (text, 'no'): no: bins of equal width; yes: bins of equally many positions
-- column: bin: counted from 0 by rising confidence; a bin without positions has no row
-- column: lower: least probability of its bin, of bins of equal mass the least in it
-- column: upper: the most
-- column: n_positions: predictions in it that a token follows; those at index 0 are left out
-- column: confidence: mean probability of the most probable token
-- column: accuracy: share of them where it is the token that follows
-- column: gap: accuracy - confidence: below 0 it says too much
-- column: ece: expected calibration error, the same in all rows: mean of |gap|, each bin by its positions
-- column: mce: the largest |gap|, the same in all rows
-- chart:  bar(lower, accuracy)
CREATE OR REPLACE MACRO calibration(corpus := NULL, n_bins := 15, mass := 'no') AS TABLE
WITH
predicted AS (
    SELECT
        p.position_id,
        CAST(p.top_prob AS DOUBLE) AS top_prob,
        CAST(p.next_token_rank = 1 AS INTEGER) AS is_right
    FROM scored_position AS p
    WHERE
        p.surprisal IS NOT NULL AND p.index > 0
        AND p.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM scored_position AS i), corpus := corpus) AS o)
),

binned AS (
    SELECT
        p.*,
        if(
            mass = 'yes',
            ntile(n_bins) OVER (ORDER BY p.top_prob, p.position_id) - 1,
            least(CAST(floor(p.top_prob * n_bins) AS BIGINT), n_bins - 1)
        ) AS bin
    FROM predicted AS p
),

of_bin AS (
    SELECT
        b.bin,
        if(mass = 'yes', min(b.top_prob), b.bin / n_bins) AS lower,
        if(mass = 'yes', max(b.top_prob), (b.bin + 1) / n_bins) AS upper,
        count(*) AS n_positions,
        avg(b.top_prob) AS confidence,
        avg(b.is_right) AS accuracy
    FROM binned AS b
    GROUP BY b.bin
)

SELECT
    b.*,
    b.accuracy - b.confidence AS gap,
    sum(b.n_positions * abs(b.accuracy - b.confidence)) OVER () / sum(b.n_positions) OVER () AS ece,
    max(abs(b.accuracy - b.confidence)) OVER () AS mce
FROM of_bin AS b
ORDER BY b.bin;

-- Moments of the whole from the moments of its parts (Chan et al. 1979), histograms added up, for the rows of `part`.
-- Sums go in an order that the parts alone decide, so the result is the same to the bit whatever order they were loaded in.
WITH counted AS (
    SELECT s.*, count(*) OVER (PARTITION BY s.corpus_id, s.layer, s.neuron) AS n_parts
    FROM part AS s
),

whole AS (
    SELECT
        s.corpus_id, s.layer, s.neuron,
        CASE s.n_parts
            WHEN 1 THEN any_value(s.mean)
            ELSE list_sum(list(s.n_positions * s.mean ORDER BY s.n_positions, s.mean, s.std)) / sum(s.n_positions)
        END AS mean
    FROM counted AS s
    GROUP BY s.corpus_id, s.layer, s.neuron, s.n_parts
),

bins AS (
    SELECT b.corpus_id, b.layer, b.neuron, list(b.n ORDER BY b.bin) AS histogram
    FROM (
        SELECT s.corpus_id, s.layer, s.neuron, s.bin, sum(s.n)::BIGINT AS n
        FROM (
            SELECT
                p.corpus_id, p.layer, p.neuron,
                unnest(p.histogram) AS n,
                unnest(range(len(p.histogram))) AS bin
            FROM part AS p
        ) AS s
        GROUP BY ALL
    ) AS b
    GROUP BY ALL
),

merged AS (
    SELECT
        s.corpus_id, s.layer, s.neuron,
        sum(s.n_positions)::BIGINT AS n_positions,
        sum(s.n_active)::BIGINT AS n_active,
        w.mean,
        CASE s.n_parts
            WHEN 1 THEN any_value(s.std)
            ELSE sqrt(
                list_sum(list(s.n_positions * (s.std * s.std + (s.mean - w.mean) ** 2) ORDER BY s.n_positions, s.mean, s.std)) / sum(s.n_positions)
            )
        END AS std,
        min(s.min) AS min,
        max(s.max) AS max
    FROM counted AS s
    INNER JOIN whole AS w ON s.corpus_id = w.corpus_id AND s.layer = w.layer AND s.neuron = w.neuron
    GROUP BY s.corpus_id, s.layer, s.neuron, s.n_parts, w.mean
)

SELECT m.*, b.histogram
FROM merged AS m
INNER JOIN bins AS b ON m.corpus_id = b.corpus_id AND m.layer = b.layer AND m.neuron = b.neuron

-- Exact top-k of a corpus out of the shards' candidates, for the rows of `part`. Ties go to the smaller position_id.
-- The coefficients before a trigger are kept to rank 20 (schema.terms.PRECEDING_RANKS).
-- Of one context the best is kept: shards that know nothing of each other may each bring one. Rows of a sweep that keeps all have no context.
WITH distinguished AS (
    SELECT t.*
    FROM part AS t
    WHERE t.context IS NULL
    UNION ALL
    SELECT t.*
    FROM part AS t
    WHERE t.context IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY t.layer, t.neuron, t.tail, t.context
        ORDER BY CASE t.tail WHEN 'max' THEN -t.coefficient ELSE t.coefficient END, t.position_id
    ) = 1
),

ranked AS (
    SELECT
        t.*,
        row_number() OVER (
            PARTITION BY t.layer, t.neuron, t.tail
            ORDER BY CASE t.tail WHEN 'max' THEN -t.coefficient ELSE t.coefficient END, t.position_id
        ) AS new_rank
    FROM distinguished AS t
),

sweep AS (
    SELECT
        r.corpus_id,
        max((r.settings ->> 'triggers')::INTEGER) AS k
    FROM run AS r
    WHERE r.kind = 'sweep'
    GROUP BY r.corpus_id
)

SELECT
    t.corpus_id,
    t.layer,
    t.neuron,
    t.tail,
    t.new_rank AS rank,
    t.position_id,
    t.coefficient,
    CASE WHEN t.new_rank <= 20 THEN t.preceding END AS preceding,
    CASE WHEN t.new_rank <= 20 THEN t.preceding_scale END AS preceding_scale,
    t.context
FROM ranked AS t
INNER JOIN sweep AS s ON t.corpus_id = s.corpus_id
WHERE t.new_rank <= s.k

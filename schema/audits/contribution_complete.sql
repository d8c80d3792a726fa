-- rule: what is taken apart has its token, its constant, every head and every FFN, and each head a row of totals
WITH
counted AS (
    SELECT
        c.position_id,
        count(*) FILTER (WHERE c.kind = 'token') AS n_tokens,
        count(*) FILTER (WHERE c.kind = 'constant') AS n_constants,
        count(*) FILTER (WHERE c.kind = 'head' AND c.layer IS NOT NULL AND c.head BETWEEN 0 AND m.n_heads - 1) AS n_heads,
        count(*) FILTER (WHERE c.kind = 'ffn' AND c.layer IS NOT NULL) AS n_ffns
    FROM contribution AS c
    CROSS JOIN model AS m
    GROUP BY c.position_id
),

totals AS (
    SELECT
        h.position_id,
        count(*) AS n_totals
    FROM head_activity AS h
    GROUP BY h.position_id
)

SELECT
    a.position_id,
    c.n_tokens,
    c.n_constants,
    c.n_heads,
    c.n_ffns,
    t.n_totals
FROM attribution AS a
CROSS JOIN model AS m
LEFT JOIN counted AS c ON a.position_id = c.position_id
LEFT JOIN totals AS t ON a.position_id = t.position_id
WHERE
    a.target = 'final'
    AND (c.n_tokens, c.n_constants, c.n_heads, c.n_ffns, t.n_totals)
    IS DISTINCT FROM (1, 1, m.n_layers * m.n_heads, m.n_layers, m.n_layers * m.n_heads);

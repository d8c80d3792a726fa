-- rule: a corpus or a probe that has a row of one head has a row of every head of every layer
WITH
counted AS (
    SELECT
        'corpus ' || s.corpus_id AS source,
        count(*) AS n_heads
    FROM head_statistics AS s
    GROUP BY s.corpus_id
    UNION ALL
    SELECT
        'probe ' || p.probe AS source,
        count(*) AS n_heads
    FROM head_probe AS p
    GROUP BY p.probe
)

SELECT
    c.source,
    c.n_heads,
    m.n_layers * m.n_heads AS n_expected
FROM counted AS c
CROSS JOIN model AS m
WHERE c.n_heads <> m.n_layers * m.n_heads;

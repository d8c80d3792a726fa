-- rule: what composes is a head and one of an earlier layer; keys have a matching through the 32 largest scores of each reader, and nothing else has
WITH
ranked AS (
    SELECT
        c.*,
        row_number() OVER (PARTITION BY c.kind, c.layer, c.head ORDER BY c.score DESC, c.from_layer, c.from_head) AS place
    FROM composition AS c
)

SELECT r.*
FROM ranked AS r
CROSS JOIN model AS m
WHERE
    r.from_layer >= r.layer
    OR r.from_head NOT BETWEEN 0 AND m.n_heads - 1
    OR (r.matching IS NOT NULL) <> (r.kind = 'k' AND r.place <= 32)
    OR abs(r.matching) > 1 + 1e-5
    OR (r.kind = 'v' AND r.score_averaged IS NOT NULL);

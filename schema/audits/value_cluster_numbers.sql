-- rule: clusters of a space are numbered from 0 without a gap, in the order of their first layer and neuron
WITH
opening AS (
    SELECT
        c.space,
        c.cluster,
        min((c.layer, c.neuron)) AS opened_at
    FROM value_cluster AS c
    GROUP BY c.space, c.cluster
),

ordered AS (
    SELECT
        o.*,
        row_number() OVER (PARTITION BY o.space ORDER BY o.opened_at) - 1 AS expected
    FROM opening AS o
)

SELECT o.*
FROM ordered AS o
WHERE o.cluster <> o.expected;

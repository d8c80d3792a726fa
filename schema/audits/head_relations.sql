-- rule: every head of the model is held against every relation that is counted, and against no other
WITH
of_relation AS (
    SELECT
        h.run_id,
        h.relation,
        h.looks_at,
        count(*) AS n_heads,
        count(*) FILTER (WHERE h.accuracy IS NOT NULL) AS n_chosen_by,
        count(*) FILTER (WHERE h.test_accuracy IS NOT NULL) AS n_tested
    FROM head_relation AS h
    GROUP BY h.run_id, h.relation, h.looks_at
),

every_head AS (
    SELECT x.n_layers * x.n_heads AS n
    FROM model AS x
)

SELECT
    coalesce(w.run_id, o.run_id) AS run_id,
    coalesce(w.relation, o.relation) AS relation,
    coalesce(w.looks_at, o.looks_at) AS looks_at,
    o.n_heads
FROM word_relation AS w
FULL OUTER JOIN of_relation AS o ON w.run_id = o.run_id AND w.relation = o.relation AND w.looks_at = o.looks_at
CROSS JOIN every_head AS m
WHERE
    coalesce(
        o.n_heads <> m.n
        OR o.n_chosen_by <> CASE WHEN w.n_words > 0 THEN m.n ELSE 0 END
        OR o.n_tested <> CASE WHEN w.n_test > 0 THEN m.n ELSE 0 END,
        TRUE
    );

-- rule: no coefficient, score, norm, statistic or coordinate is NaN or infinite
WITH
number AS (
    SELECT
        'trigger' AS place,
        unnest([t.coefficient, coalesce(t.preceding_scale, 0)]) AS number
    FROM trigger AS t
    UNION ALL
    SELECT
        'coefficient' AS place,
        unnest([c.coefficient, c.sub_update_norm]) AS number
    FROM coefficient AS c
    UNION ALL
    SELECT
        'sub_update' AS place,
        unnest([
            u.coefficient,
            u.sub_update_norm,
            u.candidate_score,
            u.final_score,
            u.next_score,
            u.candidate_frozen_score,
            u.final_frozen_score,
            u.next_frozen_score
        ]) AS number
    FROM sub_update AS u
    UNION ALL
    SELECT
        'layer_activity' AS place,
        unnest([a.sub_update_norm_total, a.sub_update_norm_dominant]) AS number
    FROM layer_activity AS a
    UNION ALL
    SELECT
        'neuron' AS place,
        unnest([n.key_norm, n.gate_norm, n.value_norm, n.key_value_cosine, n.gate_value_cosine]) AS number
    FROM neuron AS n
    UNION ALL
    SELECT
        'value_token' AS place,
        v.score AS number
    FROM value_token AS v
    UNION ALL
    SELECT
        'neuron_statistics' AS place,
        unnest([s.mean, s.std, s.min, s.max]) AS number
    FROM neuron_statistics AS s
    UNION ALL
    SELECT
        'removal' AS place,
        r.coefficient AS number
    FROM removal AS r
    UNION ALL
    SELECT
        'control_token' AS place,
        c.score AS number
    FROM control_token AS c
    UNION ALL
    SELECT
        'map_point' AS place,
        unnest([p.x, p.y]) AS number
    FROM map_point AS p
)

SELECT
    n.place,
    n.number,
    count(*) AS n_rows
FROM number AS n
WHERE NOT isfinite(n.number)
GROUP BY n.place, n.number;

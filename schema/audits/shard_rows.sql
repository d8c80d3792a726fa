-- rule: tables that only one run writes have the rows that the manifest of the shards counts
WITH
counted AS (
    SELECT
        j.key AS relation,
        sum(CAST(j.value AS BIGINT)) AS n_counted
    FROM shard AS s
    CROSS JOIN json_each(s.n_rows) AS j
    GROUP BY j.key
),

-- triggers and statistics are merged over shards; documents, sequences and positions are shared by runs of one corpus
found AS (
    FROM (SELECT 'neuron' AS relation, count(*) AS n_found FROM neuron)
    UNION ALL
    FROM (SELECT 'value_token' AS relation, count(*) AS n_found FROM value_token)
    UNION ALL
    FROM (SELECT 'value_neighbour' AS relation, count(*) AS n_found FROM value_neighbour)
    UNION ALL
    FROM (SELECT 'trace' AS relation, count(*) AS n_found FROM trace)
    UNION ALL
    FROM (SELECT 'residual_state' AS relation, count(*) AS n_found FROM residual_state)
    UNION ALL
    FROM (SELECT 'logit_lens' AS relation, count(*) AS n_found FROM logit_lens)
    UNION ALL
    FROM (SELECT 'logit_lens_token' AS relation, count(*) AS n_found FROM logit_lens_token)
    UNION ALL
    FROM (SELECT 'coefficient' AS relation, count(*) AS n_found FROM coefficient)
    UNION ALL
    FROM (SELECT 'layer_activity' AS relation, count(*) AS n_found FROM layer_activity)
    UNION ALL
    FROM (SELECT 'sub_update' AS relation, count(*) AS n_found FROM sub_update)
    UNION ALL
    FROM (SELECT 'removal' AS relation, count(*) AS n_found FROM removal)
    UNION ALL
    FROM (SELECT 'next_token_rank' AS relation, count(*) AS n_found FROM next_token_rank)
    UNION ALL
    FROM (SELECT 'control_token' AS relation, count(*) AS n_found FROM control_token)
    UNION ALL
    FROM (SELECT 'value_cluster' AS relation, count(*) AS n_found FROM value_cluster)
    UNION ALL
    FROM (SELECT 'map_point' AS relation, count(*) AS n_found FROM map_point)
)

SELECT
    f.relation,
    coalesce(c.n_counted, 0) AS n_counted,
    f.n_found
FROM found AS f
LEFT JOIN counted AS c ON f.relation = c.relation
WHERE coalesce(c.n_counted, 0) <> f.n_found;

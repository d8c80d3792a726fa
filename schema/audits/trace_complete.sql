-- rule: every traced position has, in every layer, its activity, five logit lenses, and as many dominant sub-updates as all others
WITH
expected AS (
    SELECT
        t.position_id,
        l.layer
    FROM trace AS t
    CROSS JOIN model AS m
    CROSS JOIN range(m.n_layers) AS l (layer)
),

lens AS (
    SELECT
        l.position_id,
        l.layer,
        count(*) AS n_sites
    FROM logit_lens AS l
    GROUP BY l.position_id, l.layer
),

updates AS (
    SELECT
        u.position_id,
        u.layer,
        count(*) FILTER (u.selection = 'dominant') AS n_dominant,
        max(n_dominant) OVER () AS n_everywhere
    FROM sub_update AS u
    GROUP BY u.position_id, u.layer
)

SELECT
    e.position_id,
    e.layer,
    coalesce(s.n_sites, 0) AS n_sites,
    coalesce(u.n_dominant, 0) AS n_dominant,
    a.n_active IS NOT NULL AS has_activity
FROM expected AS e
LEFT JOIN lens AS s ON e.position_id = s.position_id AND e.layer = s.layer
LEFT JOIN updates AS u ON e.position_id = u.position_id AND e.layer = u.layer
LEFT JOIN layer_activity AS a ON e.position_id = a.position_id AND e.layer = a.layer
WHERE coalesce(s.n_sites, 0) <> 5 OR u.n_dominant IS DISTINCT FROM u.n_everywhere OR u.n_dominant IS NULL OR a.n_active IS NULL;

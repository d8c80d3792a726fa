-- rule: whatever is stored of a traced position has its row in trace
WITH
place AS (
    SELECT
        'logit_lens' AS place,
        l.position_id
    FROM logit_lens AS l
    UNION ALL
    SELECT
        'logit_lens_token' AS place,
        c.position_id
    FROM logit_lens_token AS c
    UNION ALL
    SELECT
        'residual_state' AS place,
        r.position_id
    FROM residual_state AS r
    UNION ALL
    SELECT
        'coefficient' AS place,
        c.position_id
    FROM coefficient AS c
    UNION ALL
    SELECT
        'layer_activity' AS place,
        a.position_id
    FROM layer_activity AS a
    UNION ALL
    SELECT
        'sub_update' AS place,
        u.position_id
    FROM sub_update AS u
)

SELECT
    p.place,
    p.position_id,
    count(*) AS n_rows
FROM place AS p
WHERE p.position_id NOT IN (SELECT t.position_id FROM trace AS t)
GROUP BY p.place, p.position_id;

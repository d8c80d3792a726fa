-- rule: the dominant sub-updates sum to sub_update_norm_dominant, which is no more than the total
WITH
summed AS (
    SELECT
        u.position_id,
        u.layer,
        sum(u.sub_update_norm) AS norm_sum
    FROM sub_update AS u
    WHERE u.selection = 'dominant'
    GROUP BY u.position_id, u.layer
)

SELECT
    a.position_id,
    a.layer,
    a.sub_update_norm_dominant,
    s.norm_sum,
    a.sub_update_norm_total
FROM layer_activity AS a
INNER JOIN summed AS s ON a.position_id = s.position_id AND a.layer = s.layer
WHERE
    abs(a.sub_update_norm_dominant - s.norm_sum) > 1e-4 * (1 + s.norm_sum)
    OR a.sub_update_norm_dominant > a.sub_update_norm_total * (1 + 1e-4);

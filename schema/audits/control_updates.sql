-- rule: the FFN updates among the control vectors are of traced positions, and of none at index 0
WITH
allowed AS (
    SELECT t.position_id
    FROM trace AS t
    INNER JOIN position AS p ON t.position_id = p.position_id
    WHERE p.index > 0
)

SELECT
    c.layer,
    c.item,
    count(*) AS n_rows
FROM control_token AS c
WHERE c.control = 'ffn_update' AND c.item NOT IN (SELECT a.position_id FROM allowed AS a)
GROUP BY c.layer, c.item;

-- rule: the listed sources of a head sum to what is stored as kept, which is no more than the whole
WITH
summed AS (
    SELECT
        s.position_id,
        s.layer,
        s.head,
        sum(s.weight) AS weight,
        sum(s.moved) AS moved
    FROM attention AS s
    GROUP BY s.position_id, s.layer, s.head
)

SELECT
    h.position_id,
    h.layer,
    h.head,
    h.kept_weight,
    s.weight,
    h.kept_moved,
    s.moved,
    h.moved AS moved_whole
FROM head_activity AS h
LEFT JOIN summed AS s ON h.position_id = s.position_id AND h.layer = s.layer AND h.head = s.head
WHERE
    s.weight IS NULL
    OR abs(h.kept_weight - s.weight) > 1e-5
    OR abs(h.kept_moved - s.moved) > 1e-4 * (1e-6 + h.moved)
    OR h.kept_moved > h.moved * (1 + 1e-4) + 1e-6;

-- rule: sub-updates have ranks from 1 without a gap, their lengths do not rise, and no random one is longer than the shortest dominant
WITH
following AS (
    SELECT
        u.*,
        row_number() OVER by_rank AS expected_rank,
        lead(u.sub_update_norm) OVER by_rank AS next_norm,
        min(u.sub_update_norm) FILTER (u.selection = 'dominant') OVER (PARTITION BY u.position_id, u.layer) AS shortest_dominant
    FROM sub_update AS u
    WINDOW by_rank AS (PARTITION BY u.position_id, u.layer, u.selection ORDER BY u.rank)
)

SELECT f.*
FROM following AS f
WHERE f.rank <> f.expected_rank OR f.next_norm > f.sub_update_norm OR (f.selection = 'random' AND f.sub_update_norm > f.shortest_dominant);

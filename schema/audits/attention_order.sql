-- rule: sources of a head have ranks from 1 without a gap, move less and less, and lie at the position or before it
WITH
following AS (
    SELECT
        s.*,
        p.index,
        row_number() OVER by_rank AS expected_rank,
        lead(s.moved) OVER by_rank AS next_moved
    FROM attention AS s
    INNER JOIN position AS p ON s.position_id = p.position_id
    WINDOW by_rank AS (PARTITION BY s.position_id, s.layer, s.head ORDER BY s.rank)
)

SELECT f.*
FROM following AS f
WHERE f.rank <> f.expected_rank OR f.next_moved > f.moved OR f.source_index NOT BETWEEN 0 AND f.index;

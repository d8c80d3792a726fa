-- rule: coefficients fall from rank to rank in the max tail and rise in the min tail; ties go to the smaller position_id
WITH
following AS (
    SELECT
        t.*,
        lead(t.coefficient) OVER by_rank AS next_coefficient,
        lead(t.position_id) OVER by_rank AS next_position_id
    FROM trigger AS t
    WINDOW by_rank AS (PARTITION BY t.corpus_id, t.layer, t.neuron, t.tail ORDER BY t.rank)
)

SELECT f.*
FROM following AS f
WHERE
    (f.tail = 'max' AND f.next_coefficient > f.coefficient)
    OR (f.tail = 'min' AND f.next_coefficient < f.coefficient)
    OR (f.next_coefficient = f.coefficient AND f.next_position_id <= f.position_id);

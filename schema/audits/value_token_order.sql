-- rule: tokens of a value have ranks from 1 without a gap; scores fall when promoted and rise when suppressed; ties go to the lower token_id
WITH
following AS (
    SELECT
        v.*,
        row_number() OVER by_rank AS expected_rank,
        lead(v.score) OVER by_rank AS next_score,
        lead(v.token_id) OVER by_rank AS next_token_id
    FROM value_token AS v
    WINDOW by_rank AS (PARTITION BY v.layer, v.neuron, v.direction ORDER BY v.rank)
)

SELECT f.*
FROM following AS f
WHERE
    f.rank <> f.expected_rank
    OR (f.direction = 'promoted' AND f.next_score > f.score)
    OR (f.direction = 'suppressed' AND f.next_score < f.score)
    OR (f.next_score = f.score AND f.next_token_id <= f.token_id);

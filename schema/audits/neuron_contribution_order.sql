-- rule: the neurons of a prediction have ranks from 1 without a gap, add less and less, and no more than all neurons together
WITH
following AS (
    SELECT
        c.*,
        row_number() OVER by_rank AS expected_rank,
        lead(abs(c.final_logit)) OVER by_rank AS next_size,
        sum(greatest(c.final_logit, 0)) OVER (PARTITION BY c.position_id) AS up,
        sum(least(c.final_logit, 0)) OVER (PARTITION BY c.position_id) AS down
    FROM neuron_contribution AS c
    WINDOW by_rank AS (PARTITION BY c.position_id ORDER BY c.rank)
)

SELECT
    f.*,
    a.neurons_up,
    a.neurons_down
FROM following AS f
LEFT JOIN attribution AS a ON f.position_id = a.position_id AND a.target = 'final'
WHERE
    a.position_id IS NULL
    OR f.rank <> f.expected_rank
    OR f.next_size > abs(f.final_logit)
    OR f.up > a.neurons_up * (1 + 1e-4) + 1e-5
    OR f.down < a.neurons_down * (1 + 1e-4) - 1e-5;

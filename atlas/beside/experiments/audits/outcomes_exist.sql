-- rule: likely tokens are of an outcome, whose own is the first; ranks go from 1 to 10 at most without a gap, and probabilities do not rise
WITH
following AS (
    SELECT
        t.*,
        row_number() OVER by_rank AS expected_rank,
        lead(t.prob) OVER by_rank AS next_prob
    FROM experiments.outcome_token AS t
    WINDOW by_rank AS (PARTITION BY t.experiment_id, t.arm_id, t.prompt_id, t.index ORDER BY t.rank)
)

SELECT
    f.*,
    o.top_token_id
FROM following AS f
LEFT JOIN experiments.outcome AS o
    ON f.experiment_id = o.experiment_id AND f.arm_id = o.arm_id AND f.prompt_id = o.prompt_id AND f.index = o.index
WHERE o.arm_id IS NULL OR f.rank <> f.expected_rank OR f.rank > 10 OR f.next_prob > f.prob OR (f.rank = 1 AND f.token_id <> o.top_token_id);

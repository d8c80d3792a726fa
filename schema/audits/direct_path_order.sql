-- rule: what follows each token by the direct path has ranks without a gap, and logits and probabilities that do not rise
WITH
following AS (
    SELECT
        t.*,
        row_number() OVER by_rank AS expected_rank,
        lead(t.logit) OVER by_rank AS next_logit,
        lead(t.prob) OVER by_rank AS next_prob
    FROM direct_path_token AS t
    WINDOW by_rank AS (PARTITION BY t.token_id ORDER BY t.rank)
)

SELECT
    f.token_id,
    f.rank
FROM following AS f
WHERE f.rank <> f.expected_rank OR f.next_logit > f.logit OR f.next_prob > f.prob;

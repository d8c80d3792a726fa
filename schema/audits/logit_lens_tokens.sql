-- rule: leading candidates have ranks from 1 without a gap and probabilities that do not rise; rank 1 is the top token
WITH
following AS (
    SELECT
        c.*,
        row_number() OVER by_rank AS expected_rank,
        lead(c.prob) OVER by_rank AS next_prob
    FROM logit_lens_token AS c
    WINDOW by_rank AS (PARTITION BY c.position_id, c.layer, c.site ORDER BY c.rank)
)

SELECT
    f.*,
    l.top_token_id
FROM following AS f
LEFT JOIN logit_lens AS l ON f.position_id = l.position_id AND f.layer = l.layer AND f.site = l.site
WHERE f.rank <> f.expected_rank OR f.next_prob > f.prob OR (f.rank = 1 AND f.token_id IS DISTINCT FROM l.top_token_id);

-- rule: every control vector has as many tokens as the others, ranks from 1 without a gap, scores that do not rise, and ties by token_id
WITH
following AS (
    SELECT
        c.*,
        row_number() OVER by_rank AS expected_rank,
        lead(c.score) OVER by_rank AS next_score,
        lead(c.token_id) OVER by_rank AS next_token_id,
        count(*) OVER (PARTITION BY c.control, c.layer, c.item) AS n_tokens,
        max(c.rank) OVER () AS n_expected
    FROM control_token AS c
    WINDOW by_rank AS (PARTITION BY c.control, c.layer, c.item ORDER BY c.rank)
)

SELECT f.*
FROM following AS f
WHERE
    f.rank <> f.expected_rank
    OR f.n_tokens <> f.n_expected
    OR f.next_score > f.score
    OR (f.next_score = f.score AND f.next_token_id <= f.token_id);

-- rule: next_token_id is the token of the next position of the sequence
WITH
following AS (
    SELECT
        p.*,
        lead(p.token_id) OVER (PARTITION BY p.sequence_id ORDER BY p.index) AS following_token_id
    FROM position AS p
)

SELECT f.*
FROM following AS f
WHERE f.following_token_id IS NOT NULL AND f.next_token_id IS DISTINCT FROM f.following_token_id;

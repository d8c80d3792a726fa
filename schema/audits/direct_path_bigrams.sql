-- rule: what is said of a token's followers in a corpus is what its text holds, and every token that another follows is there
WITH
counted AS (
    SELECT
        b.corpus_id,
        b.token_id,
        CAST(sum(b.n) AS BIGINT) AS n,
        arg_max(b.next_token_id, (b.n, -b.next_token_id)) AS follower_id,
        max(b.n) AS follower_n
    FROM bigram AS b
    WHERE b.corpus_id IN (SELECT d.corpus_id FROM direct_path AS d)
    GROUP BY b.corpus_id, b.token_id
)

SELECT
    c.corpus_id,
    c.token_id,
    d.*
FROM counted AS c
FULL JOIN direct_path AS d ON c.corpus_id = d.corpus_id AND c.token_id = d.token_id
CROSS JOIN model AS m
WHERE
    (c.n, c.follower_id, c.follower_n) IS DISTINCT FROM (d.n, d.follower_id, d.follower_n)
    OR d.follower_rank NOT BETWEEN 1 AND m.d_vocab;

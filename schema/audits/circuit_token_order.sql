-- rule: the first tokens of each source have ranks without a gap and scores that do not rise, and every source has its whole rows told
WITH
following AS (
    SELECT
        t.*,
        row_number() OVER by_rank AS expected_rank,
        lead(t.score) OVER by_rank AS next_score
    FROM circuit_token AS t
    WINDOW by_rank AS (PARTITION BY t.layer, t.head, t.circuit, t.source_token_id ORDER BY t.rank)
)

SELECT
    f.layer,
    f.head,
    f.circuit,
    f.source_token_id
FROM following AS f
FULL JOIN circuit_source AS s
    ON
        f.layer = s.layer
        AND f.head = s.head
        AND f.circuit = s.circuit
        AND f.source_token_id = s.source_token_id
WHERE s.layer IS NULL OR f.layer IS NULL OR f.rank <> f.expected_rank OR f.next_score > f.score;

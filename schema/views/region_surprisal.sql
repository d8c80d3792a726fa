-- title:  How surprising each region of a test's sentence is, and all of it
-- source: tables test_item, test_region and position_prediction
-- grain:  document_id, region
CREATE OR REPLACE VIEW region_surprisal AS
WITH
spoken AS (
    SELECT
        s.document_id,
        i.position_id + 1 AS position_id,
        CAST(p.surprisal AS DOUBLE) AS surprisal
    FROM test_item AS t
    INNER JOIN sequence AS s ON t.document_id = s.document_id
    INNER JOIN position AS i ON s.sequence_id = i.sequence_id
    INNER JOIN position_prediction AS p ON i.position_id = p.position_id
    WHERE p.surprisal IS NOT NULL
)

SELECT
    w.document_id,
    r.region,
    sum(w.surprisal) AS surprisal,
    count(*) AS n_tokens
FROM spoken AS w
INNER JOIN test_region AS r ON w.document_id = r.document_id AND w.position_id BETWEEN r.first_position_id AND r.last_position_id
GROUP BY w.document_id, r.region
UNION ALL
SELECT
    w.document_id,
    '*' AS region,
    sum(w.surprisal) AS surprisal,
    count(*) AS n_tokens
FROM spoken AS w
GROUP BY w.document_id;
COMMENT ON VIEW region_surprisal IS 'Sums over tokens: each is scored at the position before it, the first behind BOS included.';
COMMENT ON COLUMN region_surprisal.document_id IS 'The sentence.';
COMMENT ON COLUMN region_surprisal.region IS 'The region, as in test_region; * for the whole sentence.';
COMMENT ON COLUMN region_surprisal.surprisal IS 'Sum over its tokens of their negative log-probabilities, in nats.';
COMMENT ON COLUMN region_surprisal.n_tokens IS 'Tokens it consists of.';

-- title:  How often each token of the vocabulary is read, over all corpora of the atlas
-- source: table position
-- grain:  token_id
CREATE OR REPLACE VIEW token_frequency AS
WITH
counted AS (
    SELECT
        p.token_id,
        count(*) AS n_positions
    FROM position AS p
    GROUP BY p.token_id
)

SELECT
    k.token_id,
    coalesce(c.n_positions, 0) AS n_positions,
    row_number() OVER by_count AS frequency_rank,
    (sum(coalesce(c.n_positions, 0)) OVER by_count - coalesce(c.n_positions, 0)) / sum(c.n_positions) OVER () AS share_before
FROM token AS k
LEFT JOIN counted AS c ON k.token_id = c.token_id
WINDOW by_count AS (ORDER BY coalesce(c.n_positions, 0) DESC, k.token_id ROWS UNBOUNDED PRECEDING);
COMMENT ON VIEW token_frequency IS 'Tokens by how often they are read, from the commonest; those never read come last.';
COMMENT ON COLUMN token_frequency.token_id IS 'The token.';
COMMENT ON COLUMN token_frequency.n_positions IS 'Its occurrences, all corpora together; 0 if it is never read.';
COMMENT ON COLUMN token_frequency.frequency_rank IS 'From 1 for the commonest; ties go to the lowest token_id.';
COMMENT ON COLUMN token_frequency.share_before IS 'Share of all occurrences that the tokens of smaller frequency_rank make up, in [0, 1].';

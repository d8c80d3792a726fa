-- title:  Queries with the model's prediction and the mixture that was chosen
-- source: tables retrieval, knn_query and knn_prediction; Khandelwal et al. 2020, equation 3
-- grain:  retrieval_id, position_id
CREATE OR REPLACE VIEW retrievals.scored_query AS
SELECT
    q.retrieval_id,
    q.part,
    q.position_id,
    q.index,
    q.next_token_id,
    CAST(q.surprisal AS DOUBLE) AS surprisal,
    p.next_token_prob AS knn_prob,
    (1 - r.weight) * exp(-CAST(q.surprisal AS DOUBLE)) + r.weight * p.next_token_prob AS mixed_prob,
    -- DuckDB raises for a logarithm of 0, which the mixture may give where the weight is 1
    if(mixed_prob > 0, -ln(mixed_prob), CAST('infinity' AS DOUBLE)) AS mixed_surprisal,
    q.top_token_id,
    q.top_prob,
    p.top_token_id AS knn_top_token_id,
    p.top_prob AS knn_top_prob,
    q.nearest_distance,
    q.is_near,
    q.is_same_text,
    q.is_near OR q.is_same_text AS is_copy
FROM retrievals.knn_query AS q
INNER JOIN retrievals.retrieval AS r ON q.retrieval_id = r.retrieval_id
INNER JOIN retrievals.knn_prediction AS p
    ON
        q.retrieval_id = p.retrieval_id
        AND q.position_id = p.position_id
        AND r.k = p.k
        AND r.temperature = p.temperature;
COMMENT ON VIEW retrievals.scored_query IS 'Queries with the model''s prediction and the mixture that was chosen.';
COMMENT ON COLUMN retrievals.scored_query.retrieval_id IS 'The retrieval.';
COMMENT ON COLUMN retrievals.scored_query.part IS 'tune or test.';
COMMENT ON COLUMN retrievals.scored_query.position_id IS 'The query.';
COMMENT ON COLUMN retrievals.scored_query.index IS 'Its place in its sequence, from 0.';
COMMENT ON COLUMN retrievals.scored_query.next_token_id IS 'The token that follows.';
COMMENT ON COLUMN retrievals.scored_query.surprisal IS 'The model''s negative log-probability of that token, in nats.';
COMMENT ON COLUMN retrievals.scored_query.knn_prob IS 'The neighbours'' probability of it, in [0, 1].';
COMMENT ON COLUMN retrievals.scored_query.mixed_prob IS 'The mixture''s probability of it, in [0, 1].';
COMMENT ON COLUMN retrievals.scored_query.mixed_surprisal IS 'Negative log-probability of it in the mixture, in nats; infinite where that gives it none.';
COMMENT ON COLUMN retrievals.scored_query.top_token_id IS 'The model''s most probable token.';
COMMENT ON COLUMN retrievals.scored_query.top_prob IS 'Its probability, in [0, 1].';
COMMENT ON COLUMN retrievals.scored_query.knn_top_token_id IS 'The neighbours'' most probable token.';
COMMENT ON COLUMN retrievals.scored_query.knn_top_prob IS 'Its probability, in [0, 1].';
COMMENT ON COLUMN retrievals.scored_query.nearest_distance IS 'Squared L2 distance to the nearest entry.';
COMMENT ON COLUMN retrievals.scored_query.is_near IS 'Whether that is under 1% of the median.';
COMMENT ON COLUMN retrievals.scored_query.is_same_text IS 'Whether the 32 tokens up to it are those up to a neighbour.';
COMMENT ON COLUMN retrievals.scored_query.is_copy IS 'Whether it is a near-copy: either of both.';

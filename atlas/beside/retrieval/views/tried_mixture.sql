-- title:  Perplexity of the tune queries for every number of neighbours, temperature and weight that was tried
-- source: tables retrieval, knn_query and knn_prediction; Khandelwal et al. 2020, equation 3
-- grain:  retrieval_id, k, temperature, weight
CREATE OR REPLACE VIEW retrievals.tried_mixture AS
WITH
weights AS (
    SELECT CAST(r.range AS DOUBLE) / 20 AS weight
    FROM range(21) AS r
),

mixed AS (
    SELECT
        p.retrieval_id,
        p.k,
        p.temperature,
        w.weight,
        q.is_near OR q.is_same_text AS is_copy,
        (1 - w.weight) * exp(-CAST(q.surprisal AS DOUBLE)) + w.weight * p.next_token_prob AS prob,
        -- DuckDB raises for a logarithm of 0
        if(prob > 0, -ln(prob), CAST('infinity' AS DOUBLE)) AS surprisal
    FROM retrievals.knn_prediction AS p
    INNER JOIN retrievals.knn_query AS q ON p.retrieval_id = q.retrieval_id AND p.position_id = q.position_id
    CROSS JOIN weights AS w
    WHERE q.part = 'tune'
)

SELECT
    m.retrieval_id,
    m.k,
    m.temperature,
    m.temperature / any_value(r.median_distance) AS temperature_steps,
    m.weight,
    exp(avg(m.surprisal)) AS perplexity,
    exp(avg(m.surprisal) FILTER (NOT m.is_copy)) AS perplexity_others,
    count(*) AS n_queries,
    count(*) FILTER (NOT m.is_copy) AS n_others,
    bool_and(m.k = r.k AND m.temperature = r.temperature AND m.weight = r.weight) AS is_chosen
FROM mixed AS m
INNER JOIN retrievals.retrieval AS r ON m.retrieval_id = r.retrieval_id
GROUP BY m.retrieval_id, m.k, m.temperature, m.weight;
COMMENT ON VIEW retrievals.tried_mixture IS 'Perplexity of the tune queries for every k, temperature and weight that was tried.';
COMMENT ON COLUMN retrievals.tried_mixture.retrieval_id IS 'The retrieval.';
COMMENT ON COLUMN retrievals.tried_mixture.k IS 'Neighbours.';
COMMENT ON COLUMN retrievals.tried_mixture.temperature IS 'T of exp(-distance / T), in squared units of the key.';
COMMENT ON COLUMN retrievals.tried_mixture.temperature_steps IS 'T in units of the median distance to the nearest entry.';
COMMENT ON COLUMN retrievals.tried_mixture.weight IS 'Share λ of the neighbours in the mixture, in [0, 1]; 0 is the model alone.';
COMMENT ON COLUMN retrievals.tried_mixture.perplexity IS 'Of the tune queries; infinite where one of their tokens is given nothing.';
COMMENT ON COLUMN retrievals.tried_mixture.perplexity_others IS 'Of those that are no near-copies; null where all are.';
COMMENT ON COLUMN retrievals.tried_mixture.n_queries IS 'Tune queries.';
COMMENT ON COLUMN retrievals.tried_mixture.n_others IS 'Of them those that are no near-copies.';
COMMENT ON COLUMN retrievals.tried_mixture.is_chosen IS 'Whether these settings were taken.';

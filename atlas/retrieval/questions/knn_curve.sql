-- title:  Perplexity for every weight, temperature and number of neighbours that was tried
-- source: Khandelwal et al. 2020, figures 4 and 5
-- grain:  k, temperature, weight
-- n:      n_queries
-- param:  retrieval (integer): retrieval_id; knn_result() lists them
-- column: k: neighbours
-- column: temperature: T of exp(-distance / T), in squared units of the key
-- column: temperature_steps: T in units of the median distance to the nearest entry
-- column: weight: share λ of the neighbours in the mixture; 0 is the model alone
-- column: perplexity: of the tune queries, infinite where one of their tokens is given nothing: the test queries were scored with the chosen settings alone
-- column: perplexity_others: of those that are no near-copies
-- column: n_queries: tune queries
-- column: is_chosen: whether these settings were taken
-- chart:  line(weight, perplexity)
CREATE OR REPLACE MACRO retrievals.knn_curve(retrieval) AS TABLE
WITH
weights AS (
    SELECT CAST(r.range AS DOUBLE) / 20 AS weight
    FROM range(21) AS r
),

mixed AS (
    SELECT
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
    WHERE p.retrieval_id = retrieval AND q.part = 'tune'
)

SELECT
    m.k,
    m.temperature,
    m.temperature / any_value(r.median_distance) AS temperature_steps,
    m.weight,
    exp(avg(m.surprisal)) AS perplexity,
    exp(avg(m.surprisal) FILTER (NOT m.is_copy)) AS perplexity_others,
    count(*) AS n_queries,
    bool_and(m.k = r.k AND m.temperature = r.temperature AND m.weight = r.weight) AS is_chosen
FROM mixed AS m
INNER JOIN retrievals.retrieval AS r ON r.retrieval_id = retrieval
GROUP BY m.k, m.temperature, m.weight
ORDER BY m.k, m.temperature, m.weight;

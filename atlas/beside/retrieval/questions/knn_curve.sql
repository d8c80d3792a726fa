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
SELECT
    t.k,
    t.temperature,
    t.temperature_steps,
    t.weight,
    t.perplexity,
    t.perplexity_others,
    t.n_queries,
    t.is_chosen
FROM retrievals.tried_mixture AS t
WHERE t.retrieval_id = retrieval
ORDER BY t.k, t.temperature, t.weight;

-- title:  How much weight do neighbours deserve?
-- source: Khandelwal et al. 2020, figure 5 (section 5); with the k and T that were chosen
-- grain:  weight
-- n:      n_queries
-- param:  retrieval (integer): retrieval_id; knn_result() lists them
-- column: weight: share λ of the neighbours in the mixture, in [0, 1]; 0 is the model alone
-- column: perplexity: of the tune queries, infinite where one of their tokens is given nothing
-- column: perplexity_others: of those that are no near-copies; null where all are
-- column: k: neighbours, as chosen
-- column: temperature: T of exp(-distance / T), as chosen, in squared units of the key
-- column: n_queries: tune queries
-- column: n_others: of them those that are no near-copies
-- column: is_chosen: whether the test queries were scored with this λ
-- chart:  line(weight, perplexity)
CREATE OR REPLACE MACRO retrievals.khandelwal2020_fig5(retrieval) AS TABLE
SELECT
    t.weight,
    t.perplexity,
    t.perplexity_others,
    t.k,
    t.temperature,
    t.n_queries,
    t.n_others,
    t.is_chosen
FROM retrievals.tried_mixture AS t
INNER JOIN retrievals.retrieval AS r ON t.retrieval_id = r.retrieval_id AND t.k = r.k AND t.temperature = r.temperature
WHERE t.retrieval_id = retrieval
ORDER BY t.weight;

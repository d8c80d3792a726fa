-- title:  How much do more neighbours help?
-- source: Khandelwal et al. 2020, figure 4 (section 5); of each k with the λ and T that are best for it
-- grain:  k
-- n:      n_queries
-- param:  retrieval (integer): retrieval_id; knn_result() lists them
-- column: k: neighbours
-- column: perplexity: of the tune queries, the smallest of all λ and T with this k
-- column: perplexity_others: with the same λ and T of those that are no near-copies; null where all are
-- column: weight: that λ, share of the neighbours in the mixture, in [0, 1]
-- column: temperature: that T of exp(-distance / T), in squared units of the key
-- column: temperature_steps: T in units of the median distance to the nearest entry
-- column: n_queries: tune queries
-- column: n_others: of them those that are no near-copies
-- column: is_chosen: whether the test queries were scored with this k
-- chart:  line(k, perplexity)
CREATE OR REPLACE MACRO retrievals.khandelwal2020_fig4(retrieval) AS TABLE
SELECT
    t.k,
    t.perplexity,
    t.perplexity_others,
    t.weight,
    t.temperature,
    t.temperature_steps,
    t.n_queries,
    t.n_others,
    t.is_chosen
FROM retrievals.tried_mixture AS t
WHERE t.retrieval_id = retrieval
-- the chosen settings first: the rounding of a sum may differ from that of another
QUALIFY row_number() OVER (PARTITION BY t.k ORDER BY t.is_chosen DESC, t.perplexity, t.weight, t.temperature) = 1
ORDER BY t.k;

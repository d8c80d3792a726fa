-- title:  What do neighbours take off the model's perplexity, near-copies apart?
-- source: Khandelwal et al. 2020, table 1 (section 4.1); near-copies are left out beside it
-- grain:  part
-- n:      n_queries
-- param:  retrieval (integer): retrieval_id; knn_result() lists them
-- column: part: tune, what k, T and λ were chosen on; test, scored once with them
-- column: n_queries: queries of the part
-- column: perplexity: of the model
-- column: perplexity_knn: of the mixture with the neighbours
-- column: gain: mean of the model's surprisal minus the mixture's, in nats
-- column: n_others: queries that are no near-copies
-- column: perplexity_others: of the model, without near-copies; null where all are
-- column: perplexity_knn_others: of the mixture, without near-copies; null where all are
-- column: k: neighbours, as chosen
-- column: temperature: T of exp(-distance / T), as chosen, in squared units of the key
-- column: temperature_steps: T in units of the median distance to the nearest entry
-- column: weight: share λ of the neighbours in the mixture, as chosen, in [0, 1]
-- column: n_entries: entries of the store
-- column: is_training_text: whether the model was trained on the store's text; null where nobody said
-- column: n_earlier_tests: retrievals that had scored this test corpus against these entries before: the test is seen once where it is 0
-- chart:  bar(part, perplexity_knn)
CREATE OR REPLACE MACRO retrievals.khandelwal2020_table1(retrieval) AS TABLE
WITH
parts AS (
    SELECT
        s.retrieval_id,
        s.part,
        count(*) AS n_queries,
        exp(avg(s.surprisal)) AS perplexity,
        exp(avg(s.mixed_surprisal)) AS perplexity_knn,
        avg(s.surprisal - s.mixed_surprisal) AS gain,
        count(*) FILTER (NOT s.is_copy) AS n_others,
        exp(avg(s.surprisal) FILTER (NOT s.is_copy)) AS perplexity_others,
        exp(avg(s.mixed_surprisal) FILTER (NOT s.is_copy)) AS perplexity_knn_others
    FROM retrievals.scored_query AS s
    WHERE s.retrieval_id = retrieval
    GROUP BY s.retrieval_id, s.part
)

SELECT
    p.part,
    p.n_queries,
    p.perplexity,
    p.perplexity_knn,
    p.gain,
    p.n_others,
    p.perplexity_others,
    p.perplexity_knn_others,
    r.k,
    r.temperature,
    r.temperature / r.median_distance AS temperature_steps,
    r.weight,
    r.n_entries,
    r.is_training_text,
    r.n_earlier_tests
FROM parts AS p
INNER JOIN retrievals.retrieval AS r ON p.retrieval_id = r.retrieval_id
ORDER BY p.part DESC;

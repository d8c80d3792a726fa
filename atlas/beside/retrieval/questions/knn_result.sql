-- title:  What does retrieval add to the model, chosen on one text and scored once on another, near-copies apart and by index
-- source: Khandelwal et al. 2020, tables 1 and 4; perplexity = exp(mean surprisal)
-- grain:  retrieval, part, queries
-- n:      n_queries
-- param:  retrieval (integer, NULL): one retrieval_id; NULL takes all
-- column: retrieval: retrieval_id, counted from 0
-- column: part: test, scored once with what was chosen; tune, what it was chosen on: no measure of it
-- column: queries: all; near-copies, whose text the store has nearly word for word; others; or the indices from … to … in their sequences
-- column: n_queries: how many
-- column: perplexity: of the model
-- column: perplexity_knn: of the mixture with the neighbours
-- column: gain: mean of the model's surprisal minus the mixture's, in nats
-- column: k: neighbours, as chosen
-- column: temperature: T of exp(-distance / T), as chosen, in squared units of the key
-- column: temperature_steps: T in units of the median distance to the nearest entry
-- column: weight: share λ of the neighbours in the mixture, as chosen
-- column: n_entries: entries of the store
-- column: key_site: which state a key is
-- column: is_training_text: whether the model was trained on the store's text; null where nobody said
-- column: n_earlier_tests: retrievals that had scored this test corpus against these entries before: the test is seen once where it is 0
-- chart:  bar(queries, gain)
CREATE OR REPLACE MACRO retrievals.knn_result(retrieval := NULL) AS TABLE
WITH
binned AS (
    SELECT
        s.*,
        CAST(2 ** floor(log2(greatest(s.index, 1))) AS BIGINT) AS lowest
    FROM retrievals.scored_query AS s
    WHERE retrieval IS NULL OR s.retrieval_id = retrieval
),

grouped AS (
    SELECT
        b.retrieval_id,
        b.part,
        b.is_copy,
        b.lowest,
        grouping_id(b.is_copy, b.lowest) AS level,
        count(*) AS n_queries,
        exp(avg(b.surprisal)) AS perplexity,
        exp(avg(b.mixed_surprisal)) AS perplexity_knn,
        avg(b.surprisal - b.mixed_surprisal) AS gain
    FROM binned AS b
    GROUP BY GROUPING SETS ((b.retrieval_id, b.part), (b.retrieval_id, b.part, b.is_copy), (b.retrieval_id, b.part, b.lowest))
)

SELECT
    g.retrieval_id AS retrieval,
    g.part,
    CASE
        WHEN g.level = 3 THEN 'all'
        WHEN g.is_copy THEN 'near-copies'
        WHEN g.level = 1 THEN 'others'
        WHEN g.lowest = 1 THEN 'index 0-1'
        ELSE 'index ' || g.lowest || '-' || (2 * g.lowest - 1)
    END AS queries,
    g.n_queries,
    g.perplexity,
    g.perplexity_knn,
    g.gain,
    r.k,
    r.temperature,
    r.temperature / r.median_distance AS temperature_steps,
    r.weight,
    r.n_entries,
    r.key_site,
    r.is_training_text,
    r.n_earlier_tests
FROM grouped AS g
INNER JOIN retrievals.retrieval AS r ON g.retrieval_id = r.retrieval_id
ORDER BY g.retrieval_id, g.part, g.level DESC, g.is_copy, g.lowest;

-- title:  How much of what retrieval adds is copying
-- source: Khandelwal et al. 2020, section 6; a near-copy has an entry nearer than 1% of the median, or 32 equal tokens before it
-- grain:  part, sort_of_copy
-- n:      n_queries
-- param:  retrieval (integer): retrieval_id; knn_result() lists them
-- column: part: test, scored once; tune, chosen on
-- column: sort_of_copy: near, by its distance alone; same text, by its 32 tokens alone; both; or none
-- column: n_queries: how many
-- column: share: of the part's queries
-- column: perplexity: of the model
-- column: perplexity_knn: of the mixture, as chosen
-- column: gain: mean of the model's surprisal minus the mixture's, in nats
-- column: share_of_gain: of the sum of gains over the part's queries; above 1 or below 0 where the other sorts lose
-- chart:  bar(sort_of_copy, share_of_gain)
CREATE OR REPLACE MACRO retrievals.knn_copies(retrieval) AS TABLE
SELECT
    s.part,
    CASE
        WHEN s.is_near AND s.is_same_text THEN 'both'
        WHEN s.is_near THEN 'near'
        WHEN s.is_same_text THEN 'same text'
        ELSE 'none'
    END AS sort_of_copy,
    count(*) AS n_queries,
    count(*) / sum(count(*)) OVER (PARTITION BY s.part) AS share,
    exp(avg(s.surprisal)) AS perplexity,
    exp(avg(s.mixed_surprisal)) AS perplexity_knn,
    avg(s.surprisal - s.mixed_surprisal) AS gain,
    sum(s.surprisal - s.mixed_surprisal) / nullif(sum(sum(s.surprisal - s.mixed_surprisal)) OVER (PARTITION BY s.part), 0) AS share_of_gain
FROM retrievals.scored_query AS s
WHERE s.retrieval_id = retrieval
GROUP BY s.part, sort_of_copy
ORDER BY s.part, sort_of_copy;

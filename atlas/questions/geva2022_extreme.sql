-- title:  Extreme sub-updates: scores of the top candidate beyond a threshold
-- source: Geva et al. 2022, section 5.3: above 10 for GPT-2, above 5 for WikiLM; 1.7% of GPT-2's values
-- grain:  layer
-- n:      n_sub_updates
-- param:  threshold (double, 10.0): size of the score above which a sub-update is extreme, raw logits
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: layer: transformer block, from 0
-- column: n_sub_updates: dominant sub-updates looked at, of all traced positions
-- column: n_extreme: of them with |m·(e_w·v)| above the threshold, w the top token at resid_mid
-- column: extreme_share: n_extreme / n_sub_updates, in [0, 1]
-- column: n_promoting: extreme ones that promote w
-- column: n_demoting: extreme ones that demote w
-- column: n_values: different values among the extreme ones
-- column: values_share: n_values / d_ffn, in [0, 1]
-- chart:  bar(layer, n_extreme)
--
-- Positions at index 0, the first of a sequence, count too: the states of most models are huge there.
CREATE OR REPLACE MACRO geva2022_extreme(threshold := 10.0, corpus := NULL) AS TABLE
SELECT
    u.layer,
    count(*) AS n_sub_updates,
    count(*) FILTER (abs(u.candidate_score) > threshold) AS n_extreme,
    n_extreme / n_sub_updates AS extreme_share,
    count(*) FILTER (u.candidate_score > threshold) AS n_promoting,
    count(*) FILTER (u.candidate_score < -threshold) AS n_demoting,
    count(DISTINCT u.neuron) FILTER (abs(u.candidate_score) > threshold) AS n_values,
    n_values / m.d_ffn AS values_share
FROM sub_update AS u
INNER JOIN traced_position AS t ON u.position_id = t.position_id
CROSS JOIN model AS m
WHERE
    u.selection = 'dominant'
    AND t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
GROUP BY u.layer, m.d_ffn
ORDER BY u.layer;

-- title:  Probability that the residual before the FFN gives the final prediction
-- source: Geva et al. 2021, section 5.2 and figure 10
-- grain:  layer
-- n:      n_positions
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: layer: transformer block, from 0
-- column: mean_final_prob: mean softmax probability, at resid_mid by the logit lens, of the model's prediction, in [0, 1]
-- column: n_positions: traced positions averaged over
-- column: n_first: of them at index 0, the first of a sequence, where the states of most models are huge
-- column: mean_final_prob_without_first: the same mean without those at index 0
-- chart:  line(layer, mean_final_prob)
CREATE OR REPLACE MACRO geva2021_fig10(corpus := NULL) AS TABLE
SELECT
    l.layer,
    avg(l.final_token_prob) AS mean_final_prob,
    count(*) AS n_positions,
    count(*) FILTER (t.is_first) AS n_first,
    avg(l.final_token_prob) FILTER (NOT t.is_first) AS mean_final_prob_without_first
FROM logit_lens AS l
INNER JOIN traced_position AS t ON l.position_id = t.position_id
WHERE
    l.site = 'resid_mid'
    AND t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
GROUP BY l.layer
ORDER BY l.layer;

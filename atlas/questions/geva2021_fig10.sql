-- title:  Probability that the residual before the FFN gives the final prediction
-- source: Geva et al. 2021, section 5.2 and figure 10
-- grain:  layer
-- n:      n_positions
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora together
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
WHERE l.site = 'resid_mid' AND (corpus IS NULL OR t.corpus_id = corpus)
GROUP BY l.layer
ORDER BY l.layer;

-- title:  Share of a layer's memories that are active at a position
-- source: Geva et al. 2021, section 5.1 and figure 7
-- grain:  layer
-- n:      n_positions
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: layer: transformer block, from 0
-- column: active_share: mean over the traced positions of active memories / d_ffn, in [0, 1]
-- column: n_positions: traced positions averaged over
-- column: n_first: of them at index 0, the first of a sequence, where the states of most models are huge
-- column: active_share_without_first: the same share without those at index 0
-- column: activation: activation function of the FFN
-- column: is_gated: the coefficient is act(gate·x)·(up·x), whose sign the model does not fix
-- column: threshold: a memory counts as active where its coefficient is above this
-- column: active_means: the rule in words, and whether it is the paper's
-- chart:  line(layer, active_share)
--
-- Every traced position counts; the paper takes one position of a sentence, as a trace of a corpus cut by sentence does.
CREATE OR REPLACE MACRO geva2021_fig7(corpus := NULL) AS TABLE
SELECT
    a.layer,
    avg(a.n_active) / m.d_ffn AS active_share,
    count(*) AS n_positions,
    count(*) FILTER (t.is_first) AS n_first,
    avg(a.n_active) FILTER (NOT t.is_first) / m.d_ffn AS active_share_without_first,
    r.activation,
    r.is_gated,
    r.threshold,
    r.active_means
FROM layer_activity AS a
INNER JOIN traced_position AS t ON a.position_id = t.position_id
CROSS JOIN active_rule AS r
CROSS JOIN model AS m
WHERE t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
GROUP BY a.layer, m.d_ffn, r.activation, r.is_gated, r.threshold, r.active_means
ORDER BY a.layer;

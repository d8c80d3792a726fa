-- title:  How often no active value alone predicts what the layer predicts
-- source: Geva et al. 2021, section 5.1 and figure 8: zero agreement
-- grain:  layer
-- n:      n_positions
-- param:  projection (text, 'raw'): how the layer's output is read: raw (E·z), as the values are and as in the paper, or final_norm (the logit lens)
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: layer: transformer block, from 0
-- column: projection: how the output is read; the values' top tokens are raw under both
-- column: zero_agreement: share of traced positions where no active value's top token is the top token of ffn_out, in [0, 1]
-- column: zero_agreement_block: the same against the top token of resid_post, as in the authors' code
-- column: n_positions: traced positions counted
-- column: activation: activation function of the FFN
-- column: is_gated: the coefficient is act(gate·x)·(up·x), whose sign the model does not fix
-- column: threshold: a value counts as active where its coefficient is above this
-- column: active_means: the rule in words, and whether it is the paper's
-- chart:  line(layer, zero_agreement)
--
-- The paper's model has no final norm, so that its two sides are one projection: raw is its figure. final_norm compares raw values with a normed output.
-- Positions whose trace is older than the raw projection count under final_norm alone.
CREATE OR REPLACE MACRO geva2021_fig8(projection := 'raw', corpus := NULL) AS TABLE
WITH
compared AS (
    SELECT
        a.position_id,
        a.layer,
        if(projection = 'raw', a.n_agreeing_values_raw, a.n_agreeing_values) AS n_agreeing,
        if(projection = 'raw', a.n_agreeing_values_block_raw, a.n_agreeing_values_block) AS n_agreeing_block
    FROM layer_activity AS a
)

SELECT
    a.layer,
    CAST(projection AS VARCHAR) AS projection,
    avg(if(a.n_agreeing = 0, 1, 0)) AS zero_agreement,
    avg(if(a.n_agreeing_block = 0, 1, 0)) AS zero_agreement_block,
    count(*) AS n_positions,
    r.activation,
    r.is_gated,
    r.threshold,
    r.active_means
FROM compared AS a
INNER JOIN traced_position AS t ON a.position_id = t.position_id
CROSS JOIN active_rule AS r
WHERE
    a.n_agreeing IS NOT NULL
    AND t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
GROUP BY a.layer, r.activation, r.is_gated, r.threshold, r.active_means
ORDER BY a.layer;

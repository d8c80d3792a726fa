-- title:  Every state of the residual stream that an atlas holds
-- source: DESIGN: vectors are stored once, so resid_pre of a later layer is the resid_post before it
-- grain:  position_id, layer, site
CREATE OR REPLACE VIEW stream_state AS
SELECT
    r.position_id,
    r.layer,
    r.site,
    r.vector
FROM residual_state AS r
UNION ALL
SELECT
    r.position_id,
    CAST(r.layer + 1 AS SMALLINT) AS layer,
    'resid_pre' AS site,
    r.vector
FROM residual_state AS r
CROSS JOIN model AS m
WHERE r.site = 'resid_post' AND r.layer + 1 < m.n_layers;
COMMENT ON VIEW stream_state IS 'residual_state with resid_pre of every layer: that of a later layer is the resid_post of the layer before.';
COMMENT ON COLUMN stream_state.position_id IS 'The token occurrence.';
COMMENT ON COLUMN stream_state.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN stream_state.site IS 'resid_pre, resid_mid, resid_post; attn_out and ffn_out where the trace kept them.';
COMMENT ON COLUMN stream_state.vector IS 'The state or update, [d_model], in the units of the residual stream.';

-- title:  How the candidate after an FFN relates to the residual's and to the FFN's own
-- source: Geva et al. 2021, section 5.2 and figure 11
-- grain:  position_id, layer
--
-- With o = top(resid_post), r = top(resid_mid), y = top(ffn_out):
-- agreement o = r = y, residual o = r <> y, ffn o = y <> r, composition o <> r and o <> y. The shares of the four sum to 1.
-- o and r are states, read by the logit lens; y is an update, read by it too (change), or raw as the values are (raw_change).
CREATE OR REPLACE VIEW prediction_change AS
SELECT
    post.position_id,
    post.layer,
    CASE
        WHEN post.top_token_id = mid.top_token_id AND post.top_token_id = ffn.top_token_id THEN 'agreement'
        WHEN post.top_token_id = mid.top_token_id THEN 'residual'
        WHEN post.top_token_id = ffn.top_token_id THEN 'ffn'
        ELSE 'composition'
    END AS change,
    CASE
        WHEN a.raw_ffn_token_id IS NULL THEN NULL
        WHEN post.top_token_id = mid.top_token_id AND post.top_token_id = a.raw_ffn_token_id THEN 'agreement'
        WHEN post.top_token_id = mid.top_token_id THEN 'residual'
        WHEN post.top_token_id = a.raw_ffn_token_id THEN 'ffn'
        ELSE 'composition'
    END AS raw_change,
    mid.top_token_id AS residual_token_id,
    ffn.top_token_id AS ffn_token_id,
    a.raw_ffn_token_id,
    post.top_token_id AS output_token_id
FROM logit_lens AS post
INNER JOIN logit_lens AS mid ON post.position_id = mid.position_id AND post.layer = mid.layer AND mid.site = 'resid_mid'
INNER JOIN logit_lens AS ffn ON post.position_id = ffn.position_id AND post.layer = ffn.layer AND ffn.site = 'ffn_out'
INNER JOIN layer_activity AS a ON post.position_id = a.position_id AND post.layer = a.layer
WHERE post.site = 'resid_post';
COMMENT ON VIEW prediction_change IS
'One of four classes for every traced position and layer (Geva et al. 2021, figure 11): agreement, residual, ffn, composition.';
COMMENT ON COLUMN prediction_change.position_id IS 'The traced token occurrence.';
COMMENT ON COLUMN prediction_change.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN prediction_change.change IS
'agreement: output, residual and FFN agree; residual: output is the residual''s; ffn: output is the FFN''s, read by the logit lens; composition: neither.';
COMMENT ON COLUMN prediction_change.raw_change IS 'The same with the FFN''s top token read raw (E·ffn_out); null where the trace is older than that token.';
COMMENT ON COLUMN prediction_change.residual_token_id IS 'Top token at resid_mid.';
COMMENT ON COLUMN prediction_change.ffn_token_id IS 'Top token at ffn_out by the logit lens (final_norm).';
COMMENT ON COLUMN prediction_change.raw_ffn_token_id IS 'Top token of E·ffn_out, raw; null where the trace is older than the column.';
COMMENT ON COLUMN prediction_change.output_token_id IS 'Top token at resid_post.';

-- title:  The ten largest sub-updates of a position and layer, with their share of the whole
-- source: Geva et al. 2022, section 5: dominance by |m|·‖v‖
-- grain:  position_id, layer, rank
CREATE OR REPLACE VIEW dominant_sub_update AS
SELECT
    u.position_id,
    u.layer,
    u.rank,
    u.neuron,
    u.coefficient,
    u.sub_update_norm,
    u.sub_update_norm / a.sub_update_norm_total AS share,
    u.candidate_score,
    u.final_score,
    u.next_score,
    u.candidate_frozen_score,
    u.final_frozen_score,
    u.next_frozen_score
FROM sub_update AS u
INNER JOIN layer_activity AS a ON u.position_id = a.position_id AND u.layer = a.layer
WHERE u.selection = 'dominant';
COMMENT ON VIEW dominant_sub_update IS 'sub_update without the random baseline, each with its share of the layer''s summed length at the position.';
COMMENT ON COLUMN dominant_sub_update.position_id IS 'The traced token occurrence.';
COMMENT ON COLUMN dominant_sub_update.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN dominant_sub_update.rank IS 'From 1, by sub_update_norm.';
COMMENT ON COLUMN dominant_sub_update.neuron IS 'FFN hidden unit of the layer, counted from 0.';
COMMENT ON COLUMN dominant_sub_update.coefficient IS 'm_i, signed.';
COMMENT ON COLUMN dominant_sub_update.sub_update_norm IS '|m_i|·‖v_i‖.';
COMMENT ON COLUMN dominant_sub_update.share IS 'sub_update_norm over the sum of it over all neurons of the layer, in [0, 1].';
COMMENT ON COLUMN dominant_sub_update.candidate_score IS 'm_i·(e_w·v_i), raw, for w = top token at resid_mid.';
COMMENT ON COLUMN dominant_sub_update.final_score IS 'The same for the model''s final prediction.';
COMMENT ON COLUMN dominant_sub_update.next_score IS 'The same for the corpus token that follows; null where the document ends.';
COMMENT ON COLUMN dominant_sub_update.candidate_frozen_score IS
'What m_i·v_i adds to the logit of the same w, the final norm''s scale held (logits); null where the trace is older than the column.';
COMMENT ON COLUMN dominant_sub_update.final_frozen_score IS 'The same for the model''s final prediction.';
COMMENT ON COLUMN dominant_sub_update.next_frozen_score IS 'The same for the corpus token that follows; null where the document ends.';

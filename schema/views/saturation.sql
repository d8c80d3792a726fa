-- title:  Saturation events: the FFN makes the final prediction the top candidate for good
-- source: Geva et al. 2022, section 5.2: before the last layer only
-- grain:  position_id, layer
--
-- With w the final prediction: top(resid_mid) is not w, top(resid_post) is w, and w stays the top of resid_post in every later layer.
-- Attention of a later layer may push w down and the FFN lift it again: then a position has more than one event.
CREATE OR REPLACE VIEW saturation AS
WITH
-- the last layer whose block output still has another token on top
last_other AS (
    SELECT
        l.position_id,
        max(l.layer) AS layer
    FROM logit_lens AS l
    INNER JOIN trace AS t ON l.position_id = t.position_id
    WHERE l.site = 'resid_post' AND l.top_token_id <> t.final_token_id
    GROUP BY l.position_id
)

SELECT
    mid.position_id,
    mid.layer,
    t.final_token_id,
    mid.top_token_id AS former_token_id,
    mid.final_token_rank AS final_rank_before,
    mid.final_token_prob AS final_prob_before,
    post.final_token_prob AS final_prob_after
FROM logit_lens AS mid
INNER JOIN logit_lens AS post ON mid.position_id = post.position_id AND mid.layer = post.layer AND post.site = 'resid_post'
INNER JOIN trace AS t ON mid.position_id = t.position_id
LEFT JOIN last_other AS o ON mid.position_id = o.position_id
CROSS JOIN model AS m
WHERE
    mid.site = 'resid_mid'
    AND mid.top_token_id <> t.final_token_id
    AND mid.layer > coalesce(o.layer, -1)
    AND mid.layer < m.n_layers - 1;
COMMENT ON VIEW saturation IS
'Saturation events (Geva et al. 2022): FFN updates before the last layer after which the final prediction stays the top candidate.';
COMMENT ON COLUMN saturation.position_id IS 'The traced token occurrence.';
COMMENT ON COLUMN saturation.layer IS 'Layer of the FFN that lifts the final prediction to the top, counted from 0.';
COMMENT ON COLUMN saturation.final_token_id IS 'w: the model''s final prediction, the token promoted.';
COMMENT ON COLUMN saturation.former_token_id IS 'Top token at resid_mid, the candidate that w displaces.';
COMMENT ON COLUMN saturation.final_rank_before IS 'Rank of w at resid_mid, from 2.';
COMMENT ON COLUMN saturation.final_prob_before IS 'Probability of w at resid_mid, in [0, 1].';
COMMENT ON COLUMN saturation.final_prob_after IS 'Probability of w at resid_post, in [0, 1].';

-- title:  Elimination events: the FFN takes the top place from the candidate
-- source: Geva et al. 2022, section 5.2; the paper keeps one event per example, here is_largest_fall
-- grain:  position_id, layer
--
-- With w = top(resid_mid): top(resid_post) is not w.
-- Where input and output embedding are one, the state of the first layers scores the token that was just read highest: its removal is an event too.
CREATE OR REPLACE VIEW elimination AS
SELECT
    mid.position_id,
    mid.layer,
    mid.top_token_id AS candidate_token_id,
    post.top_token_id AS new_token_id,
    mid.top_prob AS candidate_prob_before,
    a.candidate_rank_after,
    row_number() OVER (PARTITION BY mid.position_id ORDER BY a.candidate_rank_after DESC, mid.layer) = 1 AS is_largest_fall,
    mid.top_token_id = p.token_id AS is_input_token
FROM logit_lens AS mid
INNER JOIN logit_lens AS post ON mid.position_id = post.position_id AND mid.layer = post.layer AND post.site = 'resid_post'
INNER JOIN layer_activity AS a ON mid.position_id = a.position_id AND mid.layer = a.layer
INNER JOIN position AS p ON mid.position_id = p.position_id
WHERE mid.site = 'resid_mid' AND mid.top_token_id <> post.top_token_id;
COMMENT ON VIEW elimination IS 'Elimination events (Geva et al. 2022): FFN updates after which the top candidate before them is no longer on top.';
COMMENT ON COLUMN elimination.position_id IS 'The traced token occurrence.';
COMMENT ON COLUMN elimination.layer IS 'Layer of the FFN that eliminates the candidate, counted from 0.';
COMMENT ON COLUMN elimination.candidate_token_id IS 'w: top token at resid_mid, the candidate removed.';
COMMENT ON COLUMN elimination.new_token_id IS 'Top token at resid_post.';
COMMENT ON COLUMN elimination.candidate_prob_before IS 'Probability of w at resid_mid, in [0, 1].';
COMMENT ON COLUMN elimination.candidate_rank_after IS 'Rank of w at resid_post, from 2.';
COMMENT ON COLUMN elimination.is_largest_fall IS 'The event of its position where w falls furthest (ties: the lowest layer): the event set of the paper.';
COMMENT ON COLUMN elimination.is_input_token IS 'w is the token that was read at the position: the FFN takes back the input, no guess at what follows.';

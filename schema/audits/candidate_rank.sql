-- rule: candidate_rank_after is 1 exactly where the FFN leaves the candidate on top
SELECT
    a.position_id,
    a.layer,
    a.candidate_rank_after,
    mid.top_token_id AS candidate_token_id,
    post.top_token_id AS new_token_id
FROM layer_activity AS a
INNER JOIN logit_lens AS mid ON a.position_id = mid.position_id AND a.layer = mid.layer AND mid.site = 'resid_mid'
INNER JOIN logit_lens AS post ON a.position_id = post.position_id AND a.layer = post.layer AND post.site = 'resid_post'
WHERE (a.candidate_rank_after = 1) <> (mid.top_token_id = post.top_token_id) OR a.candidate_rank_after < 1;

-- rule: the final prediction has rank 1 exactly where it is the top token
SELECT
    l.position_id,
    l.layer,
    l.site,
    l.top_token_id,
    t.final_token_id,
    l.final_token_rank
FROM logit_lens AS l
INNER JOIN trace AS t ON l.position_id = t.position_id
WHERE (l.final_token_rank = 1) <> (l.top_token_id = t.final_token_id) OR l.final_token_rank < 1;

-- rule: the logit lens at the last resid_post gives the model's own prediction, at rank 1
SELECT
    l.position_id,
    t.final_token_id,
    l.top_token_id,
    l.final_token_rank
FROM logit_lens AS l
INNER JOIN trace AS t ON l.position_id = t.position_id
CROSS JOIN model AS m
WHERE
    l.layer = m.n_layers - 1
    AND l.site = 'resid_post'
    AND (l.top_token_id <> t.final_token_id OR l.final_token_rank <> 1);

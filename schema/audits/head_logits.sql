-- rule: in a float32 model the sources of a head bring what the head adds to the prediction's logit
SELECT
    h.position_id,
    h.layer,
    h.head,
    h.final_logit,
    c.final_logit AS from_forward_pass
FROM head_activity AS h
INNER JOIN contribution AS c ON h.position_id = c.position_id AND c.kind = 'head' AND h.layer = c.layer AND h.head = c.head
CROSS JOIN model AS m
WHERE m.dtype = 'float32' AND abs(h.final_logit - c.final_logit) > 1e-3 * (1 + abs(c.final_logit));

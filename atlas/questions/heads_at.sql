-- title:  The heads that moved a prediction most
-- source: Elhage et al. 2021: direct logit attribution by head
-- grain:  layer, head
-- param:  position_id (bigint): a traced position_id
-- param:  n (integer, 20): heads listed
-- column: layer: transformer block, from 0
-- column: head: attention head of the layer, from 0
-- column: centred_logit: what it adds to the prediction's logit above what it adds to all logits on average, logits: what the softmax sees
-- column: final_logit: what it adds to the logit of the model's prediction, logits
-- column: next_logit: what it adds to that of the corpus token that follows; null where the document ends
-- column: norm: length of what it writes, in residual-stream units
-- column: erased: share of the stream that it deletes; negative where it adds to what is there
-- column: entropy: of its attention weights, in nats
-- column: first_weight: weight on index 0, in [0, 1]
-- column: self_weight: weight on the position itself, in [0, 1]
-- column: previous_weight: weight on the position before it, in [0, 1]
-- column: source: the token whose value moves most
-- column: source_weight: its weight, in [0, 1]
-- chart:  bar(head, centred_logit)
CREATE OR REPLACE MACRO heads_at(position_id, n := 20) AS TABLE
WITH
largest AS (
    SELECT
        c.*,
        c.final_logit - c.mean_logit AS centred_logit
    FROM contribution AS c
    WHERE c.position_id = position_id AND c.kind = 'head'
    QUALIFY row_number() OVER (ORDER BY abs(c.final_logit - c.mean_logit) DESC, c.layer, c.head) <= n
)

SELECT
    l.layer,
    l.head,
    l.centred_logit,
    l.final_logit,
    l.next_logit,
    l.norm,
    l.erased,
    h.entropy,
    h.first_weight,
    h.self_weight,
    h.previous_weight,
    k.text AS source,
    s.weight AS source_weight
FROM largest AS l
INNER JOIN head_activity AS h ON l.position_id = h.position_id AND l.layer = h.layer AND l.head = h.head
INNER JOIN position AS here ON l.position_id = here.position_id
LEFT JOIN attention AS s ON l.position_id = s.position_id AND l.layer = s.layer AND l.head = s.head AND s.rank = 1
LEFT JOIN position AS p ON here.sequence_id = p.sequence_id AND s.source_index = p.index
LEFT JOIN token AS k ON p.token_id = k.token_id
ORDER BY abs(l.centred_logit) DESC, l.layer, l.head;

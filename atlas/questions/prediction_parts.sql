-- title:  Which parts sum to the logit of a prediction
-- source: Elhage et al. 2021: direct logit attribution, the final norm's scale and the patterns held
-- grain:  kind, layer, head
-- param:  position_id (bigint): a traced position_id
-- param:  target (text, 'final'): final, the model's prediction, or next, the corpus token that follows
-- param:  n (integer, 20): parts listed, largest by modulus of centred_logit; the others are summed in one row
-- column: kind: token, position, head, attention_bias, ffn, ffn_bias or constant; rest: the parts not listed; residual: what rounding leaves over
-- column: layer: transformer block, from 0; null where there is none
-- column: head: attention head of the layer, from 0; null where there is none
-- column: logit: what it adds to the logit, before a soft-cap
-- column: centred_logit: the same above what it adds to all logits on average: what the softmax sees
-- column: norm: length of what it wrote, in residual-stream units; null for sums
-- column: erased: share of the stream that it deletes; negative where it adds to what is there
-- column: n_parts: parts in this row
-- chart:  bar(layer, centred_logit)
--
-- Logits sum to the model's own, and centred ones to what it is above the mean logit.
CREATE OR REPLACE MACRO prediction_parts(position_id, target := 'final', n := 20) AS TABLE
WITH
parts AS (
    SELECT
        c.kind,
        c.layer,
        c.head,
        if(target = 'next', c.next_logit, c.final_logit) AS logit,
        c.mean_logit,
        c.norm,
        c.erased
    FROM contribution AS c
    INNER JOIN attribution AS a ON c.position_id = a.position_id AND a.target = target
    WHERE c.position_id = position_id
),

ranked AS (
    SELECT
        p.*,
        p.logit - p.mean_logit AS centred_logit,
        row_number() OVER (ORDER BY abs(p.logit - p.mean_logit) DESC, p.layer, p.kind, p.head) <= n AS is_listed
    FROM parts AS p
),

shown AS (
    SELECT
        r.kind,
        r.layer,
        r.head,
        r.logit,
        r.centred_logit,
        r.norm,
        r.erased,
        1 AS n_parts
    FROM ranked AS r
    WHERE r.is_listed
    UNION ALL
    SELECT
        'rest' AS kind,
        NULL AS layer,
        NULL AS head,
        sum(r.logit) AS logit,
        sum(r.centred_logit) AS centred_logit,
        NULL AS norm,
        NULL AS erased,
        count(*) AS n_parts
    FROM ranked AS r
    WHERE NOT r.is_listed
    HAVING count(*) > 0
    UNION ALL
    SELECT
        'residual' AS kind,
        NULL AS layer,
        NULL AS head,
        a.residual AS logit,
        a.residual AS centred_logit,
        NULL AS norm,
        NULL AS erased,
        0 AS n_parts
    FROM attribution AS a
    WHERE a.position_id = position_id AND a.target = target
)

SELECT s.*
FROM shown AS s
ORDER BY
    list_position(['rest', 'residual'], s.kind) NULLS FIRST,
    abs(s.centred_logit) DESC,
    s.layer,
    s.kind,
    s.head;

-- title:  Which parts lift one token over another at a prediction
-- source: Elhage et al. 2021: direct logit attribution of a difference of logits
-- grain:  kind, layer, head
-- param:  position_id (bigint): a traced position_id
-- param:  target (text, 'final'): the token that is lifted: final, the model's prediction over the token that follows, or next, the other way round
-- param:  n (integer, 20): parts listed, largest by modulus of difference; the others are summed in one row
-- column: kind: token, position, head, attention_bias, ffn, ffn_bias or constant; rest: the parts not listed; residual: what rounding leaves over
-- column: layer: transformer block, from 0; null where there is none
-- column: head: attention head of the layer, from 0; null where there is none
-- column: difference: what it adds to the logit of the one more than to that of the other, logits
-- column: logit: what it adds to the logit of the one
-- column: other_logit: what it adds to that of the other
-- column: n_parts: parts in this row
-- chart:  bar(layer, difference)
--
-- Differences sum to that of the model's own two logits; where both tokens are one they are 0. Empty where the document ends.
CREATE OR REPLACE MACRO prediction_difference(position_id, target := 'final', n := 20) AS TABLE
WITH
ranked AS (
    SELECT
        c.kind,
        c.layer,
        c.head,
        if(target = 'next', c.next_logit, c.final_logit) AS logit,
        if(target = 'next', c.final_logit, c.next_logit) AS other_logit,
        row_number() OVER (ORDER BY abs(c.final_logit - c.next_logit) DESC, c.layer, c.kind, c.head) <= n AS is_listed
    FROM contribution AS c
    WHERE c.position_id = position_id AND c.next_logit IS NOT NULL
),

shown AS (
    SELECT r.* EXCLUDE (is_listed), 1 AS n_parts
    FROM ranked AS r
    WHERE r.is_listed
    UNION ALL
    SELECT 'rest' AS kind, NULL AS layer, NULL AS head, sum(r.logit) AS logit, sum(r.other_logit) AS other_logit, count(*) AS n_parts
    FROM ranked AS r
    WHERE NOT r.is_listed
    HAVING count(*) > 0
    UNION ALL
    SELECT 'residual' AS kind, NULL AS layer, NULL AS head, a.residual AS logit, o.residual AS other_logit, 0 AS n_parts
    FROM attribution AS a
    INNER JOIN attribution AS o ON a.position_id = o.position_id AND a.target <> o.target
    WHERE a.position_id = position_id AND a.target = target
)

SELECT
    s.kind,
    s.layer,
    s.head,
    s.logit - s.other_logit AS difference,
    s.logit,
    s.other_logit,
    s.n_parts
FROM shown AS s
ORDER BY
    list_position(['rest', 'residual'], s.kind) NULLS FIRST,
    abs(difference) DESC,
    s.layer,
    s.kind,
    s.head;

-- title:  Which logits of a position are taken apart
-- source: Elhage et al. 2021: direct logit attribution, the final norm's scale held
-- grain:  target
-- param:  position_id (bigint): a traced position_id
-- column: target: final, the model's prediction, or next, the corpus token that follows
-- column: token: whose logit it is
-- column: logit: the model's own, before a soft-cap
-- column: mean_logit: of the whole vocabulary, logits
-- column: parts_sum: what all parts add up to, logits
-- column: residual: what rounding leaves over, logits
-- column: n_parts: parts that sum to it
-- column: token_id: the token
-- chart:  bar(token, logit)
CREATE OR REPLACE MACRO prediction_logits(position_id) AS TABLE
WITH
parts AS (
    SELECT count(*) AS n_parts
    FROM contribution AS c
    WHERE c.position_id = position_id
)

SELECT
    a.target,
    k.text AS token,
    a.logit,
    a.mean_logit,
    a.parts_sum,
    a.residual,
    p.n_parts,
    a.token_id
FROM attribution AS a
CROSS JOIN parts AS p
INNER JOIN token AS k ON a.token_id = k.token_id
WHERE a.position_id = position_id
ORDER BY a.target;

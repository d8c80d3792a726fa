-- title:  From which earlier tokens heads took a prediction
-- source: Elhage et al. 2021: what a head adds is a sum over the positions that it looks at
-- grain:  source_index
-- param:  position_id (bigint): a traced position_id
-- param:  n (integer, 20): sources listed
-- column: source_index: place in the sequence, from 0; null for all that is not listed, together
-- column: token: the token there
-- column: source_position_id: the token occurrence
-- column: n_heads: heads that list it among the sources that move most; of what is not listed, all heads
-- column: moved: sum over these heads of the length of what it adds to the stream
-- column: final_logit: what it adds through them to the logit of the model's prediction, logits
-- chart:  tokens(token, final_logit)
--
-- Of each row an atlas keeps the sources that move most, so what a source adds through other heads is in the row without an index.
CREATE OR REPLACE MACRO prediction_sources(position_id, n := 20) AS TABLE
WITH
of_all AS (
    SELECT
        s.source_index,
        count(*) AS n_heads,
        sum(s.moved) AS moved,
        sum(s.final_logit) AS final_logit
    FROM attention AS s
    WHERE s.position_id = position_id
    GROUP BY s.source_index
),

by_source AS (
    SELECT s.*
    FROM of_all AS s
    QUALIFY row_number() OVER (ORDER BY abs(s.final_logit) DESC, s.source_index) <= n
),

whole AS (
    SELECT
        count(*) AS n_heads,
        sum(h.moved) AS moved,
        sum(h.final_logit) AS final_logit
    FROM head_activity AS h
    WHERE h.position_id = position_id
    HAVING count(*) > 0
),

listed AS (
    SELECT
        coalesce(sum(s.moved), 0) AS moved,
        coalesce(sum(s.final_logit), 0) AS final_logit
    FROM by_source AS s
),

sources AS (
    FROM by_source
    UNION ALL
    SELECT
        NULL AS source_index,
        w.n_heads,
        w.moved - l.moved AS moved,
        w.final_logit - l.final_logit AS final_logit
    FROM whole AS w
    CROSS JOIN listed AS l
)

SELECT
    s.source_index,
    k.text AS token,
    p.position_id AS source_position_id,
    s.n_heads,
    s.moved,
    s.final_logit
FROM sources AS s
INNER JOIN position AS here ON here.position_id = position_id
LEFT JOIN position AS p ON here.sequence_id = p.sequence_id AND s.source_index = p.index
LEFT JOIN token AS k ON p.token_id = k.token_id
ORDER BY s.source_index IS NULL, abs(s.final_logit) DESC, s.source_index;

-- title:  Where a head looks from a position, and what each source brings
-- source: Elhage et al. 2021, value-weighted attention; sources are kept by what they move
-- grain:  rank
-- param:  position_id (bigint): a traced position_id
-- param:  layer (integer): transformer block, from 0
-- param:  head (integer): attention head of the layer, from 0
-- column: rank: from 1, by falling moved; null for all sources that are not listed, together
-- column: token: the token that is looked at; null for those not listed
-- column: source_index: its place in the sequence, from 0
-- column: distance: positions back from the one asked about; 0 is the position itself
-- column: source_position_id: the token occurrence
-- column: weight: attention weight, in [0, 1]
-- column: value_weighted: weight·‖v‖, as Elhage et al. draw it; null for those not listed
-- column: moved: length of what the source adds to the stream, weight·‖W_O·v‖
-- column: moved_share: of the sum of moved over all sources, in [0, 1]
-- column: final_logit: what it adds through this head to the logit of the model's prediction, logits
-- chart:  tokens(token, moved)
--
-- Weights sum to 1 and logits to what the head adds, since the row without a rank holds what the list leaves out.
CREATE OR REPLACE MACRO attention_sources(position_id, layer, head) AS TABLE
WITH
row_total AS (
    SELECT h.*
    FROM head_activity AS h
    WHERE h.position_id = position_id AND h.layer = layer AND h.head = head
),

listed AS (
    SELECT s.*
    FROM attention AS s
    WHERE s.position_id = position_id AND s.layer = layer AND s.head = head
),

sources AS (
    SELECT
        s.rank,
        s.source_index,
        s.weight,
        s.weight * s.value_norm AS value_weighted,
        s.moved,
        s.final_logit
    FROM listed AS s
    UNION ALL
    SELECT
        NULL AS rank,
        NULL AS source_index,
        greatest(1 - t.kept_weight, 0) AS weight,
        NULL AS value_weighted,
        greatest(t.moved - t.kept_moved, 0) AS moved,
        t.final_logit - (SELECT coalesce(sum(s.final_logit), 0) FROM listed AS s) AS final_logit
    FROM row_total AS t
)

SELECT
    s.rank,
    k.text AS token,
    s.source_index,
    here.index - s.source_index AS distance,
    p.position_id AS source_position_id,
    s.weight,
    s.value_weighted,
    s.moved,
    s.moved / nullif(t.moved, 0) AS moved_share,
    s.final_logit
FROM sources AS s
CROSS JOIN row_total AS t
INNER JOIN position AS here ON t.position_id = here.position_id
LEFT JOIN position AS p ON here.sequence_id = p.sequence_id AND s.source_index = p.index
LEFT JOIN token AS k ON p.token_id = k.token_id
ORDER BY s.rank NULLS LAST;

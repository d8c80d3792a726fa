-- title:  The sub-updates that count most at a position and layer
-- source: Geva et al. 2022, section 5: dominance by |m|·‖v‖
-- grain:  rank
-- param:  position_id (bigint): a traced position_id
-- param:  layer (integer): transformer block, from 0
-- column: rank: from 1, by falling sub_update_norm
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: coefficient: m, signed, no unit
-- column: sub_update_norm: |m|·‖v‖, in residual-stream units
-- column: share: of the summed sub_update_norm of all neurons of the layer, in [0, 1]
-- column: candidate_score: m·(e_w·v) of the top token at resid_mid, raw: no logits where a final norm follows
-- column: candidate_frozen_score: what the sub-update adds to that token's logit, the final norm's scale held; null where the trace is older than the column
-- column: final_score: raw score of the model's final prediction
-- column: final_frozen_score: its frozen-norm score, logits
-- column: next_score: raw score of the corpus token that follows; null where the document ends
-- column: next_frozen_score: its frozen-norm score, logits
-- column: promotes: the five tokens that the value promotes most, for a positive coefficient
-- chart:  bar(neuron, candidate_score)
--
-- `promotes` is what the sub-update lifts, the coefficient's sign taken in: the value's promoted tokens if it is positive, else its suppressed ones.
CREATE OR REPLACE MACRO dominant_sub_updates(position_id, layer) AS TABLE
WITH
lifted AS (
    SELECT
        u.neuron,
        list(k.text ORDER BY v.rank) AS promotes
    FROM dominant_sub_update AS u
    INNER JOIN value_token AS v
        ON
            u.layer = v.layer
            AND u.neuron = v.neuron
            AND v.direction = if(u.coefficient >= 0, 'promoted', 'suppressed')
            AND v.rank <= 5
    INNER JOIN token AS k ON v.token_id = k.token_id
    WHERE u.position_id = position_id AND u.layer = layer
    GROUP BY u.neuron
)

SELECT
    u.rank,
    u.layer,
    u.neuron,
    u.coefficient,
    u.sub_update_norm,
    u.share,
    u.candidate_score,
    u.candidate_frozen_score,
    u.final_score,
    u.final_frozen_score,
    u.next_score,
    u.next_frozen_score,
    p.promotes
FROM dominant_sub_update AS u
LEFT JOIN lifted AS p ON u.neuron = p.neuron
WHERE u.position_id = position_id AND u.layer = layer
ORDER BY u.rank;

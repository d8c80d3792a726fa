-- title:  The dominant sub-updates of all layers, by what they do to a prediction
-- source: Geva et al. 2022: sub-updates read as logits, over all layers in one ranking
-- grain:  rank
-- param:  position_id (bigint): a traced position_id
-- param:  n (integer, 20): how many
-- column: rank: from 1, by falling modulus of final_frozen_score, of final_score where the trace is older than those
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: final_frozen_score: what it adds to the logit of the model's prediction, the final norm's scale held, logits; null where the trace is older
-- column: next_frozen_score: the same for the corpus token that follows; null where the document ends
-- column: final_score: raw score of the prediction, coefficient · (e · value)
-- column: coefficient: m_i, signed
-- column: share: its length over the summed length of all sub-updates of its layer, in [0, 1]
-- column: promotes: the five tokens that it lifts most, the coefficient's sign taken in
-- chart:  bar(neuron, final_frozen_score)
--
-- Of each layer the ten largest by length are kept, so that a small one with a large score may be missing: no sum of these is the logit.
CREATE OR REPLACE MACRO prediction_sub_updates(position_id, n := 20) AS TABLE
WITH
largest AS (
    SELECT
        u.*,
        row_number() OVER (ORDER BY abs(coalesce(u.final_frozen_score, u.final_score)) DESC, u.layer, u.rank) AS place
    FROM dominant_sub_update AS u
    WHERE u.position_id = position_id
    QUALIFY place <= n
),

lifted AS (
    SELECT
        l.place,
        list(k.text ORDER BY v.rank) AS promotes
    FROM largest AS l
    INNER JOIN value_token AS v
        ON
            l.layer = v.layer
            AND l.neuron = v.neuron
            AND v.direction = if(l.coefficient >= 0, 'promoted', 'suppressed')
            AND v.rank <= 5
    INNER JOIN token AS k ON v.token_id = k.token_id
    GROUP BY l.place
)

SELECT
    l.place AS rank,
    l.layer,
    l.neuron,
    l.final_frozen_score,
    l.next_frozen_score,
    l.final_score,
    l.coefficient,
    l.share,
    p.promotes
FROM largest AS l
LEFT JOIN lifted AS p ON l.place = p.place
ORDER BY l.place;

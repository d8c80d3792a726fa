-- title:  The neurons that moved a prediction most
-- source: Elhage et al. 2021 and Geva et al. 2022: sub-updates read as logits, the final norm's scale held
-- grain:  rank
-- param:  position_id (bigint): a traced position_id
-- param:  n (integer, 20): neurons listed; an atlas holds 50
-- column: rank: from 1, by falling modulus of final_logit; null for all neurons that are not listed, together
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: final_logit: what its sub-update adds to the logit of the model's prediction, logits
-- column: next_logit: the same for the corpus token that follows; null where the document ends
-- column: value_top_token: the token that its value, taken once, promotes most (raw)
-- column: share: of the summed modulus over all neurons of all layers, in [0, 1]
-- chart:  bar(neuron, final_logit)
--
-- Thousands of neurons add a little each: the row without a rank says how much the list leaves out, and is often the largest.
CREATE OR REPLACE MACRO prediction_neurons(position_id, n := 20) AS TABLE
WITH
listed AS (
    SELECT c.*
    FROM neuron_contribution AS c
    WHERE c.position_id = position_id AND c.rank <= n
),

whole AS (
    SELECT
        max(a.neurons_up - a.neurons_down) FILTER (WHERE a.target = 'final') AS modulus,
        max(a.neurons_up + a.neurons_down) FILTER (WHERE a.target = 'final') AS final_logit,
        max(a.neurons_up + a.neurons_down) FILTER (WHERE a.target = 'next') AS next_logit
    FROM attribution AS a
    WHERE a.position_id = position_id
    HAVING count(*) > 0
),

kept AS (
    SELECT
        coalesce(sum(c.final_logit), 0) AS final_logit,
        coalesce(sum(abs(c.final_logit)), 0) AS modulus,
        coalesce(sum(c.next_logit), 0) AS next_logit
    FROM listed AS c
)

SELECT
    c.rank,
    c.layer,
    c.neuron,
    c.final_logit,
    c.next_logit,
    k.text AS value_top_token,
    abs(c.final_logit) / nullif(w.modulus, 0) AS share
FROM listed AS c
CROSS JOIN whole AS w
INNER JOIN neuron AS v ON c.layer = v.layer AND c.neuron = v.neuron
INNER JOIN token AS k ON v.value_top_token_id = k.token_id
UNION ALL
SELECT
    NULL AS rank,
    NULL AS layer,
    NULL AS neuron,
    w.final_logit - s.final_logit AS final_logit,
    w.next_logit - s.next_logit AS next_logit,
    NULL AS value_top_token,
    (w.modulus - s.modulus) / nullif(w.modulus, 0) AS share
FROM whole AS w
CROSS JOIN kept AS s
ORDER BY rank NULLS LAST;

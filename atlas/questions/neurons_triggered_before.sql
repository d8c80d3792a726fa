-- title:  Keys whose triggers are followed by a token
-- source: Geva et al. 2021, section 4: values predict the token that follows their key's triggers
-- grain:  layer, neuron
-- param:  token (text): the token's exact text, its leading space optional
-- param:  n (integer, 25): how many
-- param:  tail (text, 'max'): max for the largest coefficients, min for the smallest
-- param:  corpus (integer, NULL): one corpus_id; NULL counts over all corpora
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: n_triggers: triggers of the tail whose next token in the corpus it is
-- column: share: of the key's triggers in the tail, in [0, 1]
-- column: best_rank: smallest rank among them, from 1
-- column: strongest_coefficient: the one largest in size, signed
-- chart:  bar(neuron, share)
CREATE OR REPLACE MACRO neurons_triggered_before(token, n := 25, tail := 'max', corpus := NULL) AS TABLE
WITH
place AS (
    SELECT list(p.position_id) AS position_ids
    FROM position AS p
    INNER JOIN token AS k ON p.next_token_id = k.token_id
    WHERE k.text = token OR k.text = ' ' || token
)

SELECT
    m.layer,
    m.neuron,
    m.n_triggers,
    m.share,
    m.best_rank,
    m.strongest_coefficient
FROM neurons_triggered_at((SELECT l.position_ids FROM place AS l), n := n, tail := tail, corpus := corpus) AS m
ORDER BY m.n_triggers DESC, m.best_rank, m.layer, m.neuron;

-- title:  Keys whose triggers are followed by a token
-- source: Geva et al. 2021, section 4: values predict the token that follows their key's triggers
-- grain:  layer, neuron, tail
-- n:      n_kept
-- param:  token (text): the token's exact text, its leading space optional
-- param:  n (integer, 25): how many
-- param:  tail (text, NULL): max for the largest coefficients, min for the smallest; NULL looks in both
-- param:  corpus (integer, NULL): one corpus_id; NULL counts over all corpora
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: tail: the end of the key's coefficients that the row is about
-- column: n_triggers: triggers of the tail whose next token in the corpus it is
-- column: n_kept: the key's triggers in the tail
-- column: share: n_triggers / n_kept, in [0, 1]
-- column: expected_share: the share if triggers were positions drawn at random: that of all positions that the sweep counts, in [0, 1]
-- column: lift: share / expected_share
-- column: p_value: chance of n_triggers or more in n_kept draws at random (binomial), in [0, 1], for this key alone
-- column: best_rank: smallest rank among them, from 1
-- column: strongest_coefficient: the one largest in size, signed
-- column: position_id: that of the best rank; of two corpora, the smaller
-- chart:  bar(neuron, share)
CREATE OR REPLACE MACRO neurons_triggered_before(token, n := 25, tail := NULL, corpus := NULL) AS TABLE
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
    m.tail,
    m.n_triggers,
    m.n_kept,
    m.share,
    m.expected_share,
    m.lift,
    m.p_value,
    m.best_rank,
    m.strongest_coefficient,
    m.position_id
FROM neurons_triggered_at((SELECT l.position_ids FROM place AS l), n := n, tail := tail, corpus := corpus) AS m
ORDER BY m.n_triggers DESC, m.best_rank, m.layer, m.neuron, m.tail;

-- title:  Values that promote a token most
-- source: Geva et al. 2022, section 3: raw projection, coefficient 1
-- grain:  layer, neuron
-- param:  token (text): the token's exact text, its leading space optional
-- param:  n (integer, 25): how many neurons
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: token: the vocabulary's text of the token; of the spellings with and without a space the one promoted more
-- column: rank: of the token among those that the value promotes, from 1
-- column: score: e_w·v, raw projection, logits
-- column: prob: softmax(E·v) at the token, in [0, 1]
-- column: value_norm: ‖v‖, length of the value in residual-stream units
-- column: token_id: row of the output embedding
-- chart:  bar(neuron, score)
--
-- Finds values that have the token among their 30 most promoted.
CREATE OR REPLACE MACRO neurons_promoting(token, n := 25) AS TABLE
WITH
asked AS (
    SELECT
        k.token_id,
        k.text
    FROM token AS k
    WHERE k.text = token OR k.text = ' ' || token
)

SELECT
    v.layer,
    v.neuron,
    a.text AS token,
    v.rank,
    v.score,
    v.prob,
    w.value_norm,
    a.token_id
FROM value_token AS v
INNER JOIN asked AS a ON v.token_id = a.token_id
INNER JOIN neuron AS w ON v.layer = w.layer AND v.neuron = w.neuron
WHERE v.direction = 'promoted'
QUALIFY row_number() OVER (PARTITION BY v.layer, v.neuron ORDER BY v.score DESC, a.token_id) = 1
ORDER BY v.score DESC, v.layer, v.neuron
LIMIT n;

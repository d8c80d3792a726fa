-- title:  Tokens that a value promotes and suppresses
-- source: Geva et al. 2022, section 3: raw projection, coefficient 1
-- grain:  direction, rank
-- param:  layer (integer): transformer block, from 0
-- param:  neuron (integer): FFN hidden unit of the layer, from 0
-- param:  n (integer, 30): how many of each direction; an atlas holds 30
-- param:  direction (text, NULL): promoted or suppressed; NULL gives both
-- column: direction: promoted or suppressed, for a positive coefficient
-- column: rank: from 1; ties go to the lowest token_id
-- column: token: the vocabulary's text of the token
-- column: score: e_w·v, raw projection, logits
-- column: prob: softmax(E·v) at the token, in [0, 1]
-- column: token_id: row of the output embedding
-- chart:  bar(token, score)
--
-- A negative coefficient turns the two directions round.
CREATE OR REPLACE MACRO value_tokens(layer, neuron, n := 30, direction := NULL) AS TABLE
SELECT
    v.direction,
    v.rank,
    k.text AS token,
    v.score,
    v.prob,
    v.token_id
FROM value_token AS v
INNER JOIN token AS k ON v.token_id = k.token_id
WHERE
    v.layer = layer
    AND v.neuron = neuron
    AND v.rank <= n
    AND (direction IS NULL OR v.direction = direction)
ORDER BY v.direction, v.rank;

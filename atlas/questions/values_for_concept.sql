-- title:  Which values promote a list of words, and with which sign?
-- source: Geva et al. 2022, section 6.1: values found by hand for toxicity suppression; 4 tokens of 30 are section 4's bar of a concept
-- grain:  layer, neuron, direction
-- param:  words (text): separated by commas; a token counts if it is one of them, spaces and case aside
-- param:  n (integer, 10): how many
-- param:  min_tokens (integer, 4): tokens of the list that a value must have among the 30 of a direction
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: direction: promoted by a positive coefficient, or suppressed, which a negative one turns into promoted
-- column: sign: of the coefficient that switches the words on, 1 or -1
-- column: n_tokens: tokens of the list among the 30 of the direction
-- column: score: sum of their |e_w·v|, raw projection, logits at a coefficient of 1 or -1
-- column: tokens: their texts, best rank first
-- column: value_norm: ‖v‖, length of the value in residual-stream units
-- chart:  bar(neuron, score)
--
-- Words of several tokens are never found, and a word may be several tokens: with and without a space, in capitals.
CREATE OR REPLACE MACRO values_for_concept(words, n := 10, min_tokens := 4) AS TABLE
WITH
asked AS (
    SELECT DISTINCT lower(trim(w.word)) AS word
    FROM (SELECT unnest(string_split(words, ',')) AS word) AS w
    WHERE trim(w.word) <> ''
),

listed AS (
    SELECT
        k.token_id,
        k.text
    FROM token AS k
    INNER JOIN asked AS a ON lower(trim(k.text)) = a.word
),

counted AS (
    SELECT
        v.layer,
        v.neuron,
        v.direction,
        count(*) AS n_tokens,
        sum(abs(v.score::DOUBLE)) AS score,
        list(l.text ORDER BY v.rank) AS tokens
    FROM value_token AS v
    INNER JOIN listed AS l ON v.token_id = l.token_id
    GROUP BY v.layer, v.neuron, v.direction
)

SELECT
    c.layer,
    c.neuron,
    c.direction,
    if(c.direction = 'promoted', 1, -1) AS sign,
    c.n_tokens,
    c.score,
    c.tokens,
    w.value_norm
FROM counted AS c
INNER JOIN neuron AS w ON c.layer = w.layer AND c.neuron = w.neuron
WHERE c.n_tokens >= min_tokens
ORDER BY c.n_tokens DESC, c.score DESC, c.layer, c.neuron, c.direction
LIMIT n;

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
    SELECT p.position_id
    FROM position AS p
    INNER JOIN token AS k ON p.next_token_id = k.token_id
    WHERE k.text = token OR k.text = ' ' || token
),

matching AS (
    SELECT
        t.layer,
        t.neuron,
        count(*) AS n_triggers,
        min(t.rank) AS best_rank,
        max_by(t.coefficient, abs(t.coefficient)) AS strongest_coefficient
    FROM trigger AS t
    INNER JOIN place AS p ON t.position_id = p.position_id
    WHERE t.tail = tail AND (corpus IS NULL OR t.corpus_id = corpus)
    GROUP BY t.layer, t.neuron
    ORDER BY n_triggers DESC, best_rank, t.layer, t.neuron
    LIMIT n
),

-- a short corpus or several corpora keep another number of triggers than k
kept AS (
    SELECT
        t.layer,
        t.neuron,
        count(*) AS n_kept
    FROM trigger AS t
    INNER JOIN matching AS m ON t.layer = m.layer AND t.neuron = m.neuron
    WHERE t.tail = tail AND (corpus IS NULL OR t.corpus_id = corpus)
    GROUP BY t.layer, t.neuron
)

SELECT
    m.layer,
    m.neuron,
    m.n_triggers,
    m.n_triggers / k.n_kept AS share,
    m.best_rank,
    m.strongest_coefficient
FROM matching AS m
INNER JOIN kept AS k ON m.layer = k.layer AND m.neuron = k.neuron
ORDER BY m.n_triggers DESC, m.best_rank, m.layer, m.neuron;

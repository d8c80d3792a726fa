-- title:  Keys that any of some positions trigger
-- source: Geva et al. 2021, section 4: what the triggers of a key have in common
-- grain:  layer, neuron
-- param:  position_ids (bigint[]): the positions; each counts once
-- param:  n (integer, 25): how many
-- param:  tail (text, 'max'): max for the largest coefficients, min for the smallest
-- param:  corpus (integer, NULL): one corpus_id; NULL counts over all corpora
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: n_triggers: triggers of the tail among the positions
-- column: share: of the key's triggers in the tail, in [0, 1]
-- column: best_rank: smallest rank among them, from 1
-- column: strongest_coefficient: the one largest in size, signed
-- column: position_id: that of the best rank; of two corpora, the smaller
-- chart:  bar(neuron, share)
CREATE OR REPLACE MACRO neurons_triggered_at(position_ids, n := 25, tail := 'max', corpus := NULL) AS TABLE
WITH
place AS (
    SELECT DISTINCT u.position_id
    FROM (SELECT unnest(position_ids) AS position_id) AS u
),

matching AS (
    SELECT
        t.layer,
        t.neuron,
        count(*) AS n_triggers,
        min(t.rank) AS best_rank,
        max_by(t.coefficient, abs(t.coefficient)) AS strongest_coefficient,
        arg_min(t.position_id, (t.rank, t.position_id)) AS position_id
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
    m.strongest_coefficient,
    m.position_id
FROM matching AS m
INNER JOIN kept AS k ON m.layer = k.layer AND m.neuron = k.neuron
ORDER BY m.n_triggers DESC, m.best_rank, m.layer, m.neuron;

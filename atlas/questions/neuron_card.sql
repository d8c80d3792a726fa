-- title:  Everything short about one neuron
-- source: Geva et al. 2021, section 3, and 2022, section 3; Elhage et al. 2021 for the key-value cosine
-- grain:  corpus_id
-- n:      n_positions
-- param:  layer (integer): transformer block, from 0
-- param:  neuron (integer): FFN hidden unit of the layer, from 0
-- param:  corpus (integer, NULL): the corpus_id of the statistics; NULL gives a row for each corpus
-- column: corpus_id: the corpus of the statistics; null without a sweep
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: promotes: ten tokens, raw, best first
-- column: suppresses: ten tokens, raw, most suppressed first
-- column: key_norm: length of the key (of gated FFNs the up key)
-- column: gate_norm: length of the gate key; null if not gated
-- column: value_norm: ‖v‖, length of the value in residual-stream units
-- column: key_value_cosine: in [-1, 1]
-- column: gate_value_cosine: in [-1, 1]; null if not gated
-- column: value_max_prob: largest probability of softmax(E·v), in [0, 1]
-- column: value_top_token: the token that has it
-- column: n_positions: positions the statistics are over: those that the sweep counts (view swept_corpus)
-- column: active_share: share of them with a coefficient over 0, in [0, 1]
-- column: mean: mean coefficient
-- column: std: its standard deviation (divided by n)
-- column: min: smallest coefficient
-- column: max: largest coefficient
-- chart:  card
CREATE OR REPLACE MACRO neuron_card(layer, neuron, corpus := NULL) AS TABLE
WITH
promoted AS (
    SELECT
        list(k.text ORDER BY v.rank) FILTER (v.direction = 'promoted') AS promotes,
        list(k.text ORDER BY v.rank) FILTER (v.direction = 'suppressed') AS suppresses
    FROM value_token AS v
    INNER JOIN token AS k ON v.token_id = k.token_id
    WHERE v.layer = layer AND v.neuron = neuron AND v.rank <= 10
)

SELECT
    s.corpus_id,
    n.layer,
    n.neuron,
    p.promotes,
    p.suppresses,
    n.key_norm,
    n.gate_norm,
    n.value_norm,
    n.key_value_cosine,
    n.gate_value_cosine,
    n.value_max_prob,
    k.text AS value_top_token,
    s.n_positions,
    s.n_active / s.n_positions AS active_share,
    s.mean,
    s.std,
    s.min,
    s.max
FROM neuron AS n
INNER JOIN token AS k ON n.value_top_token_id = k.token_id
CROSS JOIN promoted AS p
LEFT JOIN neuron_statistics AS s
    ON
        n.layer = s.layer
        AND n.neuron = s.neuron
        AND (corpus IS NULL OR s.corpus_id = corpus)
WHERE n.layer = layer AND n.neuron = neuron
ORDER BY s.corpus_id;

-- title:  Neurons that would take out of the stream what they read there
-- source: Elhage et al. 2021, memory management: neurons with very negative cosines of key and value
-- grain:  layer, neuron, side
-- param:  n (integer, 25): how many
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: side: which key the cosine is of: key (of gated FFNs the up key) or gate
-- column: folded_cosine: of the key, the norm before it folded in, and the value, in [-1, 1]
-- column: key_value_cosine: the same of key or gate key as it is, in [-1, 1]
-- column: mean: mean coefficient over the corpora; where it is negative the neuron adds what the cosine says it takes; null without a sweep
-- column: promotes: the five tokens that the value promotes most, raw
-- chart:  bar(neuron, folded_cosine)
--
-- By rising cosine times the sign of the mean coefficient, where a sweep tells it: in a gated FFN the sign of a neuron is free. A hint, and no more: what is
-- taken out of a text only its states show.
CREATE OR REPLACE MACRO memory_neurons(n := 25) AS TABLE
WITH
means AS (
    SELECT
        s.layer,
        s.neuron,
        sum(s.mean * s.n_positions) / sum(s.n_positions) AS mean
    FROM neuron_statistics AS s
    GROUP BY s.layer, s.neuron
),

signed AS (
    SELECT
        t.layer,
        t.neuron,
        t.side,
        t.folded_cosine,
        m.mean,
        t.folded_cosine * CASE WHEN m.mean < 0 THEN -1 ELSE 1 END AS order_cosine
    FROM virtual_weight_total AS t
    LEFT JOIN means AS m ON t.layer = m.layer AND t.neuron = m.neuron
    WHERE t.folded_cosine IS NOT NULL
    ORDER BY order_cosine, t.layer, t.neuron, t.side
    LIMIT n
)

SELECT
    s.layer,
    s.neuron,
    s.side,
    s.folded_cosine,
    CASE s.side WHEN 'gate' THEN w.gate_value_cosine ELSE w.key_value_cosine END AS key_value_cosine,
    s.mean,
    list(k.text ORDER BY v.rank) AS promotes
FROM signed AS s
INNER JOIN neuron AS w ON s.layer = w.layer AND s.neuron = w.neuron
LEFT JOIN value_token AS v ON s.layer = v.layer AND s.neuron = v.neuron AND v.direction = 'promoted' AND v.rank <= 5
LEFT JOIN token AS k ON v.token_id = k.token_id
GROUP BY s.layer, s.neuron, s.side, s.folded_cosine, w.gate_value_cosine, w.key_value_cosine, s.mean, s.order_cosine
ORDER BY s.order_cosine, s.layer, s.neuron, s.side;

-- title:  Neurons of earlier layers whose values a neuron's keys read most
-- source: Elhage et al. 2021, virtual weights
-- grain:  side, rank
-- param:  layer (integer): transformer block, from 0
-- param:  neuron (integer): FFN hidden unit of the layer, from 0
-- param:  n (integer, 10): how many of each key; an atlas holds 10
-- column: side: key (of gated FFNs the up key) or gate
-- column: rank: from 1, by falling modulus of the virtual weight
-- column: layer: of the earlier neuron, from 0
-- column: neuron: the earlier neuron, from 0
-- column: weight: k̂·v, norms folded in
-- column: cosine: of both, in [-1, 1]
-- column: share: weight² over the sum of squares of all earlier neurons, in [0, 1]
-- column: promotes: the five tokens that the earlier neuron's value promotes most, raw
-- chart:  bar(rank, weight)
--
-- What could pass from one neuron to the other, were nothing added in between; the coefficients say whether it does.
CREATE OR REPLACE MACRO neuron_writers(layer, neuron, n := 10) AS TABLE
WITH
promoted AS (
    SELECT
        v.layer,
        v.neuron,
        list(k.text ORDER BY v.rank) AS promotes
    FROM value_token AS v
    INNER JOIN token AS k ON v.token_id = k.token_id
    WHERE v.direction = 'promoted' AND v.rank <= 5
    GROUP BY v.layer, v.neuron
)

SELECT
    w.side,
    w.rank,
    w.other_layer AS layer,
    w.other_neuron AS neuron,
    w.weight,
    w.cosine,
    coalesce(w.weight * w.weight / nullif(t.sum_squares, 0), 0) AS share,
    p.promotes
FROM virtual_weight AS w
INNER JOIN virtual_weight_total AS t ON w.layer = t.layer AND w.neuron = t.neuron AND w.side = t.side
LEFT JOIN promoted AS p ON w.other_layer = p.layer AND w.other_neuron = p.neuron
WHERE w.layer = layer AND w.neuron = neuron AND w.side IN ('key', 'gate') AND w.rank <= n
ORDER BY w.side DESC, w.rank;

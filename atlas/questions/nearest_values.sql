-- title:  Values that point the same way as a neuron's
-- source: Geva et al. 2022, section 6: value vectors compared by cosine
-- grain:  rank
-- param:  layer (integer): transformer block, from 0
-- param:  neuron (integer): FFN hidden unit of the layer, from 0
-- param:  n (integer, 20): how many; an atlas holds 20
-- column: rank: from 1, by falling cosine
-- column: layer: of the near value, from 0
-- column: neuron: of the near value, from 0
-- column: cosine: of the two values, in [-1, 1]
-- column: promotes: the five tokens that the near value promotes most, raw
-- chart:  bar(neuron, cosine)
CREATE OR REPLACE MACRO nearest_values(layer, neuron, n := 20) AS TABLE
WITH
nearest AS (
    SELECT
        v.rank,
        v.neighbour_layer,
        v.neighbour_neuron,
        v.cosine
    FROM value_neighbour AS v
    WHERE v.layer = layer AND v.neuron = neuron AND v.rank <= n
),

promoted AS (
    SELECT
        t.layer,
        t.neuron,
        list(k.text ORDER BY t.rank) AS promotes
    FROM value_token AS t
    INNER JOIN nearest AS v ON t.layer = v.neighbour_layer AND t.neuron = v.neighbour_neuron
    INNER JOIN token AS k ON t.token_id = k.token_id
    WHERE t.direction = 'promoted' AND t.rank <= 5
    GROUP BY t.layer, t.neuron
)

SELECT
    v.rank,
    v.neighbour_layer AS layer,
    v.neighbour_neuron AS neuron,
    v.cosine,
    p.promotes
FROM nearest AS v
LEFT JOIN promoted AS p ON v.neighbour_layer = p.layer AND v.neighbour_neuron = p.neuron
ORDER BY v.rank;

-- title:  Neurons that tell the good sentences of a paradigm from the bad ones
-- source: table neuron_contrast; candidates, not causes: switch them off to see
-- grain:  corpus_id, suite, layer, neuron
-- param:  paradigm (text): of minimal pairs, as test_suites lists them
-- param:  n (integer, 20): how many, of each corpus and suite that has the paradigm
-- column: corpus_id: the suite as a corpus
-- column: suite: its name
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: n_items: pairs
-- column: mean: mean of m_i·‖v_i‖ in the good sentence less that in the bad one, at the last token of what differs, or of the sentence
-- column: std: its standard deviation over the pairs
-- column: mean_absolute: mean of its size without sign
-- column: consistency: |mean| / mean_absolute, in [0, 1]: 1 where all pairs move it the same way
-- column: top_token: the token that the neuron's value promotes most
-- chart:  bar(neuron, mean)
CREATE OR REPLACE MACRO contrast_neurons(paradigm, n := 20) AS TABLE
WITH
ranked AS (
    SELECT
        c.*,
        row_number() OVER (PARTITION BY c.corpus_id, c.suite ORDER BY abs(c.mean) DESC, c.layer, c.neuron) AS place
    FROM neuron_contrast AS c
    WHERE c.paradigm = paradigm
)

SELECT
    r.corpus_id,
    r.suite,
    r.layer,
    r.neuron,
    r.n_items,
    r.mean,
    r.std,
    r.mean_absolute,
    if(r.mean_absolute = 0, 0, abs(r.mean) / r.mean_absolute) AS consistency,
    t.text AS top_token
FROM ranked AS r
LEFT JOIN neuron AS k ON r.layer = k.layer AND r.neuron = k.neuron
LEFT JOIN token AS t ON k.value_top_token_id = t.token_id
WHERE r.place <= n
ORDER BY r.corpus_id, r.suite, r.place;

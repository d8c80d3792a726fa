-- title:  The values that are surest of one token, and whether it follows their keys' triggers
-- source: Geva et al. 2021, section 4.2: the 100 values with the largest maximum probability
-- grain:  rank
-- n:      n_triggers
-- param:  n (integer, 100): how many values
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: rank: from 1, by falling max_prob; ties go to the lower layer and neuron
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: token: the value's top token, raw
-- column: max_prob: its probability in softmax(E·v), raw projection, coefficient 1, in [0, 1]
-- column: n_triggers: of the key's top 50 triggers those with a coefficient above 0
-- column: n_followed: of them followed by the token
-- column: precision_at_50: n_followed / n_triggers, in [0, 1]; null where no text switches the key on
-- column: is_upper: the layer is one of the upper three eighths, layer >= 5/8 n_layers: 11 to 16 of the paper's 16
-- chart:  bar(layer, max_prob)
CREATE OR REPLACE MACRO geva2021_top_values(n := 100, corpus := NULL) AS TABLE
WITH
surest AS MATERIALIZED (
    SELECT v.*
    FROM neuron AS v
    ORDER BY v.value_max_prob DESC, v.layer, v.neuron
    LIMIT n
),

judged AS (
    SELECT p.*
    FROM value_precision AS p
    WHERE p.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM neuron_statistics AS i), corpus := corpus) AS o)
)

SELECT
    row_number() OVER (ORDER BY v.value_max_prob DESC, v.layer, v.neuron) AS rank,
    v.layer,
    v.neuron,
    k.text AS token,
    v.value_max_prob AS max_prob,
    coalesce(j.n_triggers, 0) AS n_triggers,
    coalesce(j.n_followed, 0) AS n_followed,
    j.precision_at_50,
    v.layer >= m.n_layers * 5 / 8 AS is_upper
FROM surest AS v
INNER JOIN token AS k ON v.value_top_token_id = k.token_id
CROSS JOIN model AS m
LEFT JOIN judged AS j ON v.layer = j.layer AND v.neuron = j.neuron
ORDER BY rank;

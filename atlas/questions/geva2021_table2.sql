-- title:  Values whose top token most often follows their keys' triggers
-- source: Geva et al. 2021, section 4.3 and table 2: precision@50
-- grain:  rank
-- n:      n_triggers
-- param:  n (integer, 20): how many values
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: rank: from 1, by falling precision; ties go to the larger max_prob, then the lower layer and neuron
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: token: the value's top token, raw
-- column: precision_at_50: share of the key's top 50 triggers that are followed by it, in [0, 1]
-- column: n_triggers: those triggers
-- column: max_prob: the token's probability in softmax(E·v), raw projection, coefficient 1, in [0, 1]
-- column: example: a trigger it follows, the strongest: at most 80 characters before its last token, and that token; null where there is none
-- column: position_id: where the example ends
-- chart:  bar(token, precision_at_50)
--
-- Left out: keys with fewer triggers above 0 than others, which reach a high share by chance.
CREATE OR REPLACE MACRO geva2021_table2(n := 20, corpus := NULL) AS TABLE
WITH
judged AS (
    SELECT p.*
    FROM value_precision AS p
    WHERE p.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM neuron_statistics AS i), corpus := corpus) AS o)
    QUALIFY p.n_triggers = max(p.n_triggers) OVER ()
),

best AS MATERIALIZED (
    SELECT
        j.*,
        v.value_max_prob,
        v.value_top_token_id
    FROM judged AS j
    INNER JOIN neuron AS v ON j.layer = v.layer AND j.neuron = v.neuron
    ORDER BY j.precision_at_50 DESC, v.value_max_prob DESC, j.layer, j.neuron
    LIMIT n
),

followed AS MATERIALIZED (
    SELECT
        b.layer,
        b.neuron,
        first(t.position_id ORDER BY t.coefficient DESC, t.position_id) AS position_id
    FROM best AS b
    INNER JOIN trigger AS t ON b.corpus_id = t.corpus_id AND b.layer = t.layer AND b.neuron = t.neuron
    INNER JOIN position AS p ON t.position_id = p.position_id AND b.value_top_token_id = p.next_token_id
    WHERE t.tail = 'max' AND t.rank <= 50 AND t.coefficient > 0
    GROUP BY b.layer, b.neuron
)

SELECT
    row_number() OVER (ORDER BY b.precision_at_50 DESC, b.value_max_prob DESC, b.layer, b.neuron) AS rank,
    b.layer,
    b.neuron,
    k.text AS token,
    b.precision_at_50,
    b.n_triggers,
    b.value_max_prob AS max_prob,
    c.text_before || c.token AS example,
    f.position_id
FROM best AS b
INNER JOIN token AS k ON b.value_top_token_id = k.token_id
LEFT JOIN followed AS f ON b.layer = f.layer AND b.neuron = f.neuron
LEFT JOIN token_context((SELECT list(DISTINCT i.position_id) FROM followed AS i)) AS c ON f.position_id = c.position_id
ORDER BY rank;

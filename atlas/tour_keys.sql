-- title:  One telling key in each third of the layers
-- grain:  third
--
-- Of a third's keys, the one whose ten largest triggers most often end in one and the same content token, then from most documents.
-- Content: begins a word, and is neither a function word nor punctuation.
WITH
hit AS (
    SELECT
        g.layer,
        g.neuron,
        p.token_id,
        s.document_id,
        g.coefficient
    FROM trigger AS g
    INNER JOIN position AS p ON g.position_id = p.position_id
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    WHERE g.tail = 'max' AND g.rank <= 10
),

shared AS (
    SELECT
        h.layer,
        h.neuron,
        k.text AS token,
        count(*) AS n_same,
        count(DISTINCT h.document_id) AS n_documents,
        max(h.coefficient) AS coefficient
    FROM hit AS h
    INNER JOIN token AS k ON h.token_id = k.token_id
    WHERE k.starts_word AND NOT k.is_stop_word AND NOT k.is_punctuation
    GROUP BY h.layer, h.neuron, k.text
),

placed AS (
    SELECT
        s.*,
        s.layer * 3 // m.n_layers AS third
    FROM shared AS s
    CROSS JOIN model AS m
)

SELECT
    p.third,
    p.layer,
    p.neuron,
    p.token,
    p.n_same,
    p.n_documents
FROM placed AS p
QUALIFY row_number() OVER (
    PARTITION BY p.third ORDER BY p.n_same DESC, p.n_documents DESC, p.coefficient DESC, p.layer, p.neuron
) = 1
ORDER BY p.third;

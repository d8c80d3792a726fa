-- rule: in a layer with next-token ranks every key whose top trigger has a next token has that token, and its rank is one of the vocabulary
WITH
wanted AS (
    SELECT
        t.corpus_id,
        t.layer,
        t.neuron,
        p.next_token_id
    FROM trigger AS t
    INNER JOIN position AS p ON t.position_id = p.position_id
    WHERE t.tail = 'max' AND t.rank = 1 AND p.next_token_id IS NOT NULL
),

recorded AS (
    SELECT DISTINCT
        n.corpus_id,
        n.layer
    FROM next_token_rank AS n
)

SELECT
    w.next_token_id,
    n.*
FROM (FROM wanted AS s SEMI JOIN recorded AS d ON s.corpus_id = d.corpus_id AND s.layer = d.layer) AS w
FULL JOIN next_token_rank AS n ON w.corpus_id = n.corpus_id AND w.layer = n.layer AND w.neuron = n.neuron
CROSS JOIN model AS m
WHERE n.token_id IS DISTINCT FROM w.next_token_id OR n.value_rank NOT BETWEEN 1 AND m.d_vocab;

-- rule: what was read again is a trigger of the tail max whose prefix has two tokens or more beside BOS
WITH
prefix_length AS (
    SELECT
        t.corpus_id,
        t.layer,
        t.neuron,
        t.rank,
        p.index + 1 - CAST(w.is_special AND b.char_start = b.char_end AS INTEGER) AS n_tokens
    FROM trigger AS t
    INNER JOIN position AS p ON t.position_id = p.position_id
    INNER JOIN position AS b ON p.position_id - p.index = b.position_id
    INNER JOIN token AS w ON b.token_id = w.token_id
    WHERE t.tail = 'max'
)

SELECT
    r.*,
    l.n_tokens
FROM removal AS r
LEFT JOIN prefix_length AS l ON r.corpus_id = l.corpus_id AND r.layer = l.layer AND r.neuron = l.neuron AND r.rank = l.rank
WHERE coalesce(l.n_tokens, 0) < 2;

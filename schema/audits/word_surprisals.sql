-- rule: what words surprise by adds up to what the tokens behind a document's first word surprise by
WITH
word AS (
    SELECT w.*
    FROM corpus AS c
    CROSS JOIN word_surprisal(c.corpus_id) AS w
),

of_words AS (
    SELECT
        w.document_id,
        coalesce(sum(w.surprisal), 0) AS surprisal,
        arg_min(w.last_position_id, w.word) AS first_word_ends_at
    FROM word AS w
    GROUP BY w.document_id
),

-- each position says it of the token that follows, but the last, which no token that was read follows;
-- what a BOS within the document says is of a token that another position has said it of
judging AS (
    SELECT
        o.document_id,
        p.surprisal
    FROM of_words AS o
    INNER JOIN sequence AS s ON o.document_id = s.document_id
    INNER JOIN position AS i ON s.sequence_id = i.sequence_id AND o.first_word_ends_at <= i.position_id
    INNER JOIN token AS k ON i.token_id = k.token_id
    INNER JOIN position_prediction AS p ON i.position_id = p.position_id
    WHERE NOT (i.index = 0 AND i.char_start = i.char_end AND k.is_special)
    QUALIFY i.position_id < max(i.position_id) OVER (PARTITION BY o.document_id)
),

of_tokens AS (
    SELECT
        j.document_id,
        coalesce(sum(j.surprisal), 0) AS surprisal
    FROM judging AS j
    GROUP BY j.document_id
)

SELECT
    o.document_id,
    o.surprisal AS of_words,
    t.surprisal AS of_tokens
FROM of_words AS o
INNER JOIN of_tokens AS t ON o.document_id = t.document_id
WHERE abs(o.surprisal - t.surprisal) > 1e-6 * (1 + t.surprisal);

-- rule: a token's characters lie in its document, and those of the next token of the sequence do not begin before it
WITH
place AS (
    SELECT
        p.*,
        length(d.text) AS n_chars,
        lead(p.char_start) OVER (PARTITION BY p.sequence_id ORDER BY p.index) AS next_char_start
    FROM position AS p
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    INNER JOIN document AS d ON s.document_id = d.document_id
)

SELECT w.*
FROM place AS w
WHERE w.char_start < 0 OR w.char_end < w.char_start OR w.char_end > w.n_chars OR w.next_char_start < w.char_start;

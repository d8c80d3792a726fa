-- rule: a token's characters lie in its document, and those of the next token of the sequence do not begin before it
WITH
-- measured before the join, which would carry the whole text to every position
size AS (
    SELECT
        d.document_id,
        length(d.text) AS n_chars
    FROM document AS d
),

place AS (
    SELECT
        p.*,
        z.n_chars,
        lead(p.char_start) OVER (PARTITION BY p.sequence_id ORDER BY p.index) AS next_char_start
    FROM position AS p
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    INNER JOIN size AS z ON s.document_id = z.document_id
)

SELECT w.*
FROM place AS w
WHERE w.char_start < 0 OR w.char_end < w.char_start OR w.char_end > w.n_chars OR w.next_char_start < w.char_start;

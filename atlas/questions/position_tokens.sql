-- title:  The tokens around a position, with what the model predicted where that was traced
-- source: tables position and trace
-- grain:  position_id
-- param:  at_position (bigint): any position_id, traced or not
-- param:  width (integer, 48): tokens on each side, as far as the sequence goes
-- column: position_id: the token occurrence
-- column: index: place in the sequence, from 0
-- column: token: characters of the token there; the vocabulary's text of a token with none
-- column: is_asked: whether it is the position asked for
-- column: is_traced: whether everything about it is stored
-- column: final_token: the model's final prediction there; null where not traced
-- chart:  tokens(token, index)
--
-- The window is cut from its document once, because finding a character takes longer the further on it stands.
CREATE OR REPLACE MACRO position_tokens(at_position, width := 48) AS TABLE
WITH
asked AS (
    SELECT p.sequence_id
    FROM position AS p
    WHERE p.position_id = at_position
),

shown AS MATERIALIZED (
    SELECT
        p.position_id,
        p.index,
        p.token_id,
        p.char_start,
        p.char_end,
        s.document_id
    FROM position AS p
    INNER JOIN asked AS a ON p.sequence_id = a.sequence_id
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    WHERE p.position_id BETWEEN at_position - width AND at_position + width
),

excerpt AS MATERIALIZED (
    SELECT
        e.char_start,
        substr(d.text, e.char_start + 1, e.char_end - e.char_start) AS text
    FROM (
        SELECT
            i.document_id,
            min(i.char_start) AS char_start,
            max(i.char_end) AS char_end
        FROM shown AS i
        GROUP BY i.document_id
    ) AS e
    INNER JOIN document AS d ON e.document_id = d.document_id
)

SELECT
    i.position_id,
    i.index,
    if(i.char_end > i.char_start, substr(e.text, i.char_start - e.char_start + 1, i.char_end - i.char_start), k.text) AS token,
    i.position_id = at_position AS is_asked,
    t.position_id IS NOT NULL AS is_traced,
    w.text AS final_token
FROM shown AS i
CROSS JOIN excerpt AS e
INNER JOIN token AS k ON i.token_id = k.token_id
LEFT JOIN trace AS t ON i.position_id = t.position_id
LEFT JOIN token AS w ON t.final_token_id = w.token_id
ORDER BY i.position_id;

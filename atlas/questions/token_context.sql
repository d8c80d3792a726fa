-- title:  The text around token occurrences
-- source: tables position and document; character offsets into document.text
-- grain:  position_id
-- param:  position_ids (bigint[]): such as [12, 15]; one named twice is given once
-- column: position_id: the token occurrence
-- column: text_before: at most 80 characters that the model had read before the token
-- column: token: characters of the token there
-- column: text_after: at most 40 characters that the model had not read
-- column: next_token: the corpus token that follows; null where the document ends
-- column: document: name of the document
-- column: metadata: what the corpus says of the document, JSON
-- column: corpus_id: the corpus it lies in
-- column: index: place in the sequence, from 0
-- chart:  tokens(token, index)
--
-- The other questions take their text from here. Joins stay in one query and not in a view, which would cut the text of every position first.
-- The text before begins no earlier than the sequence does, because the model has read no more.
CREATE OR REPLACE MACRO token_context(position_ids) AS TABLE
WITH
asked AS MATERIALIZED (
    SELECT DISTINCT u.position_id
    FROM (SELECT unnest(position_ids) AS position_id) AS u
)

SELECT
    p.position_id,
    substr(d.text, greatest(p.char_start - 79, f.char_start + 1), least(80, p.char_start - f.char_start)) AS text_before,
    if(p.char_end > p.char_start, substr(d.text, p.char_start + 1, p.char_end - p.char_start), k.text) AS token,
    substr(d.text, p.char_end + 1, 40) AS text_after,
    nk.text AS next_token,
    d.name AS document,
    d.metadata,
    d.corpus_id,
    p.index
FROM asked AS a
INNER JOIN position AS p ON a.position_id = p.position_id
INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
INNER JOIN position AS f ON s.first_position_id = f.position_id
INNER JOIN document AS d ON s.document_id = d.document_id
INNER JOIN token AS k ON p.token_id = k.token_id
LEFT JOIN token AS nk ON p.next_token_id = nk.token_id
ORDER BY p.position_id;

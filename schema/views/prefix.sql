-- title: Text of a sequence up to and including a position
-- grain: position_id
CREATE OR REPLACE VIEW prefix AS
SELECT
    p.position_id,
    p.sequence_id,
    s.document_id,
    p.index,
    substr(d.text, f.char_start + 1, p.char_end - f.char_start) AS text
FROM position AS p
INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
INNER JOIN position AS f ON s.first_position_id = f.position_id
INNER JOIN document AS d ON s.document_id = d.document_id;
COMMENT ON VIEW prefix IS 'One row per position: the text the model had read there, cut from document.text.';
COMMENT ON COLUMN prefix.text IS 'Characters from the start of the sequence to the end of the token.';
COMMENT ON COLUMN prefix.position_id IS 'The token occurrence at which the prefix ends.';
COMMENT ON COLUMN prefix.sequence_id IS 'The sequence it lies in.';
COMMENT ON COLUMN prefix.document_id IS 'The document it was cut from.';
COMMENT ON COLUMN prefix.index IS 'Place in the sequence, from 0: the prefix has index + 1 tokens.';

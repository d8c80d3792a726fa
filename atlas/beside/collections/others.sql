-- members that the atlas is not asked about: of another model's weights, or positions of a text that it does not hold
-- earlier releases wrote U+FFFD for pieces of characters, whose bytes are spelled now: what comes before the first is the same
WITH
-- one row a key, as in token_context, of which this is a part: what a file holds many times is not joined as often
place AS (
    SELECT DISTINCT ON (p.position_id)
        p.position_id,
        p.sequence_id,
        p.token_id,
        p.char_start,
        p.char_end
    FROM position AS p
    SEMI JOIN collections.collection_member AS m ON p.position_id = m.position_id
),

sequence_there AS (
    SELECT DISTINCT ON (s.sequence_id)
        s.sequence_id,
        s.first_position_id,
        s.document_id
    FROM sequence AS s
    SEMI JOIN place AS p ON s.sequence_id = p.sequence_id
),

start AS (
    SELECT DISTINCT ON (f.position_id)
        f.position_id,
        f.char_start
    FROM position AS f
    SEMI JOIN sequence_there AS s ON f.position_id = s.first_position_id
),

document_there AS (
    SELECT DISTINCT ON (d.document_id)
        d.document_id,
        d.text
    FROM document AS d
    SEMI JOIN sequence_there AS s ON d.document_id = s.document_id
),

token_there AS (
    SELECT DISTINCT ON (k.token_id)
        k.token_id,
        k.text
    FROM token AS k
    SEMI JOIN place AS p ON k.token_id = p.token_id
),

text_there AS (
    SELECT
        p.position_id,
        replace(
            substr(d.text, greatest(p.char_start - 79, f.char_start + 1), least(80, p.char_start - f.char_start))
            || if(p.char_end > p.char_start, substr(d.text, p.char_start + 1, p.char_end - p.char_start), k.text),
            chr(0), ''
        ) AS text
    FROM place AS p
    INNER JOIN sequence_there AS s ON p.sequence_id = s.sequence_id
    INNER JOIN start AS f ON s.first_position_id = f.position_id
    INNER JOIN document_there AS d ON s.document_id = d.document_id
    INNER JOIN token_there AS k ON p.token_id = k.token_id
),

judged AS (
    SELECT
        m.collection_id,
        m.number,
        exists(
            SELECT 1
            FROM model AS w
            WHERE w.weights_sha256 = m.weights_sha256
        ) AS is_of_model,
        CASE
            WHEN m.kind <> 'position' THEN TRUE
            WHEN contains(m.text, chr(65533)) AND contains(t.text, '⟨') THEN starts_with(t.text, split_part(m.text, chr(65533), 1))
            ELSE coalesce(m.text = t.text, FALSE)
        END AS is_of_text
    FROM collections.collection_member AS m
    LEFT JOIN text_there AS t ON m.position_id = t.position_id
)

SELECT
    j.collection_id,
    j.number,
    if(NOT j.is_of_model, 'model', 'text') AS reason
FROM judged AS j
WHERE NOT j.is_of_model OR NOT j.is_of_text
ORDER BY j.collection_id, j.number;

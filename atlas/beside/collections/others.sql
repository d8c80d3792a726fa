-- members that the atlas is not asked about: of another model's weights, or positions of a text that it does not hold
-- earlier releases wrote U+FFFD for pieces of characters, whose bytes are spelled now: what comes before the first is the same
WITH
position_there AS (
    SELECT
        m.collection_id,
        m.number,
        bool_or(
            CASE
                WHEN contains(m.text, chr(65533)) AND contains(c.text_before || c.token, '⟨')
                    THEN starts_with(replace(c.text_before || c.token, chr(0), ''), split_part(m.text, chr(65533), 1))
                ELSE m.text = replace(c.text_before || c.token, chr(0), '')
            END
        ) AS is_there
    FROM collections.collection_member AS m
    LEFT JOIN token_context((
        SELECT list(p.position_id)
        FROM collections.collection_member AS p
    )) AS c ON m.position_id = c.position_id
    WHERE m.kind = 'position'
    GROUP BY ALL
)

SELECT
    m.collection_id,
    m.number,
    if(coalesce(m.weights_sha256 IN (SELECT w.weights_sha256 FROM model AS w), FALSE), 'text', 'model') AS reason
FROM collections.collection_member AS m
LEFT JOIN position_there AS t ON m.collection_id = t.collection_id AND m.number = t.number
WHERE NOT coalesce(m.weights_sha256 IN (SELECT w.weights_sha256 FROM model AS w), FALSE) OR (m.kind = 'position' AND NOT coalesce(t.is_there, FALSE))
ORDER BY m.collection_id, m.number;

-- rule: a sentence of a test was read in one sequence, and its first position covers no character, so that the first token is predicted too
SELECT
    t.document_id,
    count(s.sequence_id) AS n_sequences,
    any_value(i.char_end) AS char_end
FROM test_item AS t
LEFT JOIN sequence AS s ON t.document_id = s.document_id
LEFT JOIN position AS i ON s.first_position_id = i.position_id
GROUP BY t.document_id
HAVING n_sequences <> 1 OR char_end IS NULL OR char_end > 0;

-- rule: a region of a test's sentence lies in that sentence, behind its first position, and ends no sooner than it begins
SELECT
    r.document_id,
    r.region,
    r.first_position_id,
    r.last_position_id
FROM test_region AS r
LEFT JOIN sequence AS s
    ON
        r.document_id = s.document_id
        AND r.first_position_id > s.first_position_id
        AND r.last_position_id < s.first_position_id + s.n_positions
WHERE s.sequence_id IS NULL OR r.last_position_id < r.first_position_id;

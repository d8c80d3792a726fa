-- rule: a word lies in the text of its document, begins and ends at tokens of it, and its head is of the same sentence
WITH
token_of AS (
    SELECT
        i.position_id,
        i.char_start,
        i.char_end,
        s.document_id
    FROM position AS i
    INNER JOIN sequence AS s ON i.sequence_id = s.sequence_id
)

SELECT
    w.corpus_id,
    w.word_id
FROM word AS w
LEFT JOIN document AS d ON w.document_id = d.document_id AND w.corpus_id = d.corpus_id
LEFT JOIN token_of AS f ON w.first_position_id = f.position_id
LEFT JOIN token_of AS l ON w.last_position_id = l.position_id
LEFT JOIN word AS h ON w.corpus_id = h.corpus_id AND w.head_word_id = h.word_id
WHERE
    d.document_id IS NULL
    OR w.char_start < 0
    OR w.char_end <= w.char_start
    OR w.char_end > length(d.text)
    OR (w.first_position_id IS NOT NULL AND coalesce(f.document_id <> w.document_id OR f.char_start >= w.char_end OR f.char_end <= w.char_start, TRUE))
    OR (w.last_position_id IS NOT NULL AND coalesce(l.document_id <> w.document_id OR l.char_end <> w.char_end OR w.first_position_id IS NULL, TRUE))
    OR w.last_position_id < w.first_position_id
    OR (w.head_word_id IS NOT NULL AND coalesce(h.document_id <> w.document_id OR h.sentence <> w.sentence OR h.word_id = w.word_id, TRUE));

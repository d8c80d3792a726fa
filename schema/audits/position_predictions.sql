-- rule: every position of a corpus has a prediction, its numbers go together, and surprisal and rank are null where the document ends
SELECT
    i.position_id,
    i.next_token_id,
    p.surprisal,
    p.next_token_rank,
    p.top_token_id,
    p.top_prob
FROM position AS i
INNER JOIN sequence AS s ON i.sequence_id = s.sequence_id
INNER JOIN document AS d ON s.document_id = d.document_id
INNER JOIN run AS r ON d.corpus_id = r.corpus_id AND r.kind = 'prediction' AND r.status = 'finished'
LEFT JOIN position_prediction AS p ON i.position_id = p.position_id
WHERE
    p.position_id IS NULL
    OR (p.surprisal IS NULL) <> (i.next_token_id IS NULL)
    OR (p.next_token_rank IS NULL) <> (i.next_token_id IS NULL)
    OR (p.next_token_rank = 1) <> (p.top_token_id = i.next_token_id)
    -- nothing is more probable than the most probable token
    OR exp(-CAST(p.surprisal AS DOUBLE)) > p.top_prob + 1e-5
    OR (p.next_token_rank = 1 AND exp(-CAST(p.surprisal AS DOUBLE)) < p.top_prob - 1e-5);

-- rule: counting predicts every position that a token follows, BOS aside, in each of its orders, by a context that is no longer than the order
WITH expected AS (
    SELECT
        i.position_id,
        unnest([3, 5]) AS ngram_order,
        i.next_token_id IS NOT NULL AND NOT (i.index = 0 AND i.char_start = i.char_end AND k.is_special) AS is_predicted
    FROM position AS i
    INNER JOIN sequence AS s ON i.sequence_id = s.sequence_id
    INNER JOIN document AS d ON s.document_id = d.document_id
    INNER JOIN token AS k ON i.token_id = k.token_id
    INNER JOIN run AS r ON d.corpus_id = r.corpus_id AND r.kind = 'ngram' AND r.status = 'finished'
)

SELECT
    e.position_id,
    e.ngram_order,
    g.surprisal,
    g.matched_order
FROM expected AS e
LEFT JOIN ngram_prediction AS g ON e.position_id = g.position_id AND e.ngram_order = g.ngram_order
WHERE e.is_predicted <> (g.position_id IS NOT NULL) OR g.matched_order NOT BETWEEN 1 AND e.ngram_order;

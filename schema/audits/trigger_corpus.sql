-- rule: a trigger's position lies in the corpus it is listed under
SELECT
    t.corpus_id,
    d.corpus_id AS corpus_of_position,
    count(*) AS n_rows
FROM trigger AS t
INNER JOIN position AS p ON t.position_id = p.position_id
INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
INNER JOIN document AS d ON s.document_id = d.document_id
WHERE t.corpus_id <> d.corpus_id
GROUP BY t.corpus_id, d.corpus_id;

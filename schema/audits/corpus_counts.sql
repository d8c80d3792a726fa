-- rule: a corpus that was swept whole has the documents and positions it says
WITH
found AS (
    SELECT
        d.corpus_id,
        count(DISTINCT d.document_id) AS n_documents,
        sum(s.n_positions) AS n_positions
    FROM document AS d
    LEFT JOIN sequence AS s ON d.document_id = s.document_id
    GROUP BY d.corpus_id
)

SELECT
    c.corpus_id,
    c.n_documents,
    f.n_documents AS n_documents_found,
    c.n_positions,
    f.n_positions AS n_positions_found
FROM corpus AS c
INNER JOIN run AS r ON c.corpus_id = r.corpus_id
LEFT JOIN found AS f ON c.corpus_id = f.corpus_id
WHERE
    r.kind = 'sweep'
    AND r.status = 'finished'
    AND (c.n_documents IS DISTINCT FROM f.n_documents OR c.n_positions IS DISTINCT FROM f.n_positions);

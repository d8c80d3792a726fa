-- rule: head statistics are over every position but the first of each sequence, and no head looks more evenly than evenly
WITH expected AS (
    SELECT
        d.corpus_id,
        sum(s.n_positions - 1) AS n_destinations
    FROM sequence AS s
    INNER JOIN document AS d ON s.document_id = d.document_id
    GROUP BY d.corpus_id
)

SELECT
    h.corpus_id,
    h.layer,
    h.head,
    h.n_destinations,
    e.n_destinations AS n_expected,
    h.n_repeated,
    h.previous,
    h.self,
    h.entropy,
    h.entropy_uniform
FROM head_statistics AS h
INNER JOIN run AS r ON h.corpus_id = r.corpus_id AND r.kind = 'head_statistics' AND r.status = 'finished'
LEFT JOIN expected AS e ON h.corpus_id = e.corpus_id
WHERE
    h.n_destinations IS DISTINCT FROM e.n_destinations
    OR h.n_repeated NOT BETWEEN 0 AND h.n_destinations
    -- half-precision weights are rounded to three digits
    OR h.previous + h.self > 1.01
    OR h.entropy > 1.01 * h.entropy_uniform + 1e-5;

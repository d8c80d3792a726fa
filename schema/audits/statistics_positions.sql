-- rule: the statistics of a finished sweep are over every position of the corpus, without those at an index that the sweep left out
WITH
counted AS (
    SELECT
        c.corpus_id,
        any_value(c.n_positions) AS n_positions,
        sum(greatest(s.n_positions - c.skip_first, 0)) AS n_expected
    FROM swept_corpus AS c
    INNER JOIN run AS r ON c.corpus_id = r.corpus_id AND r.kind = 'sweep' AND r.status = 'finished'
    INNER JOIN document AS d ON c.corpus_id = d.corpus_id
    INNER JOIN sequence AS s ON d.document_id = s.document_id
    GROUP BY c.corpus_id
)

SELECT c.*
FROM counted AS c
WHERE coalesce(c.n_positions, 0) <> c.n_expected;

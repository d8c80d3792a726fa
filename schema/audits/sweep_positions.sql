-- rule: the shards of a finished sweep count every sequence and position of its corpus
WITH
counted AS (
    SELECT
        r.corpus_id,
        sum(CAST(s.n_rows ->> 'sequence' AS BIGINT)) AS n_sequences,
        sum(CAST(s.n_rows ->> 'position' AS BIGINT)) AS n_positions
    FROM run AS r
    INNER JOIN shard AS s ON r.run_id = s.run_id
    WHERE r.kind = 'sweep' AND r.status = 'finished'
    GROUP BY r.corpus_id
),

found AS (
    SELECT
        d.corpus_id,
        count(*) AS n_sequences,
        sum(s.n_positions) AS n_positions
    FROM sequence AS s
    INNER JOIN document AS d ON s.document_id = d.document_id
    GROUP BY d.corpus_id
)

SELECT
    c.corpus_id,
    c.n_sequences,
    f.n_sequences AS n_sequences_found,
    c.n_positions,
    f.n_positions AS n_positions_found
FROM counted AS c
LEFT JOIN found AS f ON c.corpus_id = f.corpus_id
WHERE c.n_sequences IS DISTINCT FROM f.n_sequences OR c.n_positions IS DISTINCT FROM f.n_positions;

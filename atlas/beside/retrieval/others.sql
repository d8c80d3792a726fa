-- retrievals with another model's weights, or of keys of texts that the atlas does not hold
WITH
judged AS (
    SELECT
        r.retrieval_id,
        exists(
            SELECT 1
            FROM model AS m
            WHERE m.weights_sha256 = r.weights_sha256
        ) AS is_of_model,
        (r.store_corpus_id, r.store_sha256) IN (SELECT (s.corpus_id, s.sha256) FROM datastore AS s)
        AND (r.tune_corpus_id, r.tune_sha256) IN (SELECT (v.corpus_id, v.sha256) FROM datastore AS v)
        AND (r.test_corpus_id, r.test_sha256) IN (SELECT (t.corpus_id, t.sha256) FROM datastore AS t) AS is_of_text
    FROM retrievals.retrieval AS r
)

SELECT
    j.retrieval_id,
    if(NOT j.is_of_model, 'model', 'text') AS reason
FROM judged AS j
WHERE NOT j.is_of_model OR NOT j.is_of_text
ORDER BY j.retrieval_id;

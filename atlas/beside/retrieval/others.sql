-- retrievals with another model's weights, or of keys of texts that the atlas does not hold
SELECT
    r.retrieval_id,
    if(m.weights_sha256 IS NULL, 'model', 'text') AS reason
FROM retrievals.retrieval AS r
LEFT JOIN model AS m ON r.weights_sha256 = m.weights_sha256
LEFT JOIN datastore AS s ON r.store_corpus_id = s.corpus_id AND r.store_sha256 = s.sha256
LEFT JOIN datastore AS v ON r.tune_corpus_id = v.corpus_id AND r.tune_sha256 = v.sha256
LEFT JOIN datastore AS t ON r.test_corpus_id = t.corpus_id AND r.test_sha256 = t.sha256
WHERE m.weights_sha256 IS NULL OR s.sha256 IS NULL OR v.sha256 IS NULL OR t.sha256 IS NULL
ORDER BY r.retrieval_id;

-- rule: retrievals are of keys that the atlas has: after another ingest under its name position_ids are of other tokens
SELECT
    r.retrieval_id,
    r.store_sha256,
    r.tune_sha256,
    r.test_sha256
FROM retrievals.retrieval AS r
LEFT JOIN datastore AS s ON r.store_corpus_id = s.corpus_id AND r.store_sha256 = s.sha256
LEFT JOIN datastore AS v ON r.tune_corpus_id = v.corpus_id AND r.tune_sha256 = v.sha256
LEFT JOIN datastore AS t ON r.test_corpus_id = t.corpus_id AND r.test_sha256 = t.sha256
WHERE s.corpus_id IS NULL OR v.corpus_id IS NULL OR t.corpus_id IS NULL;

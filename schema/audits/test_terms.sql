-- rule: every paradigm of region tests has formulas, whose conditions its items have, and constants alone have neither condition nor region
WITH
tested AS (
    SELECT DISTINCT
        d.corpus_id,
        t.suite,
        t.paradigm,
        t.role
    FROM test_item AS t
    INNER JOIN document AS d ON t.document_id = d.document_id
    WHERE t.kind = 'region'
)

SELECT
    f.corpus_id,
    f.suite,
    f.paradigm,
    f.role,
    f.region
FROM test_term AS f
LEFT JOIN tested AS t ON f.corpus_id = t.corpus_id AND f.suite = t.suite AND f.paradigm = t.paradigm AND f.role = t.role
WHERE (f.role <> '' AND t.role IS NULL) OR (f.role = '') <> (f.region = '')
UNION ALL
SELECT
    t.corpus_id,
    t.suite,
    t.paradigm,
    t.role,
    '' AS region
FROM tested AS t
ANTI JOIN test_term AS f ON t.corpus_id = f.corpus_id AND t.suite = f.suite AND t.paradigm = f.paradigm;

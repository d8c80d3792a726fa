-- rule: the sentences of a test's item go together: one good and one bad, one expected and its rivals, one original and what was made of it
WITH
of_item AS (
    SELECT
        d.corpus_id,
        t.suite,
        t.paradigm,
        t.item,
        min(t.kind) AS kind,
        max(t.kind) AS other_kind,
        count(*) AS n_sentences,
        count(*) FILTER (t.role IN ('good', 'expected', 'original')) AS n_first,
        count(*) FILTER (t.role IN ('bad', 'rival', 'perturbed', 'changed')) AS n_others,
        count(DISTINCT t.role) AS n_roles,
        bool_or((t.delta IS NOT NULL) <> (t.kind IN ('inv', 'dir'))) AS is_threshold_wrong,
        count(v.document_id) AS n_divergences,
        count(*) FILTER (t.kind = 'inv' AND t.role = 'perturbed') AS n_perturbed
    FROM test_item AS t
    LEFT JOIN document AS d ON t.document_id = d.document_id
    LEFT JOIN test_divergence AS v ON t.document_id = v.document_id
    GROUP BY d.corpus_id, t.suite, t.paradigm, t.item
)

SELECT
    i.corpus_id,
    i.suite,
    i.paradigm,
    i.item
FROM of_item AS i
WHERE
    i.corpus_id IS NULL
    OR i.kind <> i.other_kind
    OR i.is_threshold_wrong
    OR i.n_divergences <> i.n_perturbed
    OR (i.kind = 'region' AND i.n_roles <> i.n_sentences)
    OR (i.kind <> 'region' AND (i.n_first <> 1 OR i.n_others < 1 OR i.n_first + i.n_others <> i.n_sentences))
    OR (i.kind IN ('pair', 'dir') AND i.n_sentences <> 2);

-- rule: every paradigm of minimal pairs has a contrast of each neuron over all of its pairs, and no mean is larger than the mean without sign
WITH
pairs AS (
    SELECT
        d.corpus_id,
        t.suite,
        t.paradigm,
        count(*) AS n_items
    FROM test_item AS t
    INNER JOIN document AS d ON t.document_id = d.document_id
    WHERE t.kind = 'pair' AND t.role = 'good'
    GROUP BY d.corpus_id, t.suite, t.paradigm
)

SELECT
    coalesce(p.corpus_id, c.corpus_id) AS corpus_id,
    coalesce(p.suite, c.suite) AS suite,
    coalesce(p.paradigm, c.paradigm) AS paradigm,
    count(c.neuron) AS n_neurons
FROM pairs AS p
FULL JOIN neuron_contrast AS c ON p.corpus_id = c.corpus_id AND p.suite = c.suite AND p.paradigm = c.paradigm
GROUP BY ALL
HAVING
    n_neurons <> (SELECT count(*) FROM neuron)
    OR bool_or(c.n_items IS DISTINCT FROM p.n_items)
    OR bool_or(abs(c.mean) > c.mean_absolute * 1.0001 + 1e-6);

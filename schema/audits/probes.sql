-- rule: a probe's accuracy is that of its predictions, which are of all words of the test, and of words of the probe's corpus
WITH
predicted AS (
    SELECT
        p.run_id,
        p.task,
        p.layer,
        p.site,
        count(*) AS n_words,
        count(w.word_id) AS n_found,
        avg(CAST(p.label = p.predicted AS INTEGER)) AS accuracy
    FROM probe_prediction AS p
    LEFT JOIN probe_task AS t ON p.run_id = t.run_id AND p.task = t.task
    LEFT JOIN word AS w ON t.corpus_id = w.corpus_id AND p.word_id = w.word_id
    GROUP BY p.run_id, p.task, p.layer, p.site
),

of_labels AS (
    SELECT o.*
    FROM probe AS o
    WHERE o.kind = 'label'
)

SELECT
    coalesce(b.run_id, p.run_id) AS run_id,
    coalesce(b.task, p.task) AS task,
    coalesce(b.layer, p.layer) AS layer,
    b.accuracy,
    p.accuracy AS predicted_accuracy
FROM of_labels AS b
FULL OUTER JOIN predicted AS p ON b.run_id = p.run_id AND b.task = p.task AND b.layer = p.layer AND b.site = p.site
LEFT JOIN probe_task AS t ON b.run_id = t.run_id AND b.task = t.task
WHERE coalesce(abs(b.accuracy - p.accuracy) > CAST(0.000001 AS DOUBLE) OR p.n_words <> t.n_test OR p.n_found <> p.n_words, TRUE);

-- rule: the edges kept of a structural probe are of words of its corpus, and as many of the parse's are among them as its accuracy says
WITH
largest AS (
    SELECT o.*
    FROM tree_probe AS o
    WHERE o.target = 'distance' AND o.kind = 'tree'
    QUALIFY o.rank = max(o.rank) OVER (PARTITION BY o.run_id, o.layer, o.site)
),

edge AS (
    SELECT
        e.run_id,
        e.layer,
        e.site,
        e.word_id,
        e.joined_word_id,
        w.document_id,
        w.sentence,
        w.head_word_id,
        j.head_word_id AS joined_head_word_id,
        w.document_id = j.document_id AND w.sentence = j.sentence AS is_of_a_sentence
    FROM tree_edge AS e
    LEFT JOIN tree_task AS t ON e.run_id = t.run_id AND t.target = 'distance'
    LEFT JOIN word AS w ON t.corpus_id = w.corpus_id AND e.word_id = w.word_id
    LEFT JOIN word AS j ON t.corpus_id = j.corpus_id AND e.joined_word_id = j.word_id
),

of_place AS (
    SELECT
        e.run_id,
        e.layer,
        e.site,
        count(*) FILTER (WHERE e.head_word_id = e.joined_word_id OR e.joined_head_word_id = e.word_id) AS n_right,
        bool_and(coalesce(e.is_of_a_sentence, FALSE)) AS is_known
    FROM edge AS e
    GROUP BY e.run_id, e.layer, e.site
)

SELECT
    coalesce(l.run_id, p.run_id) AS run_id,
    coalesce(l.layer, p.layer) AS layer,
    coalesce(l.site, p.site) AS site,
    l.accuracy,
    p.n_right / t.n_scored AS found_accuracy
FROM largest AS l
FULL OUTER JOIN of_place AS p ON l.run_id = p.run_id AND l.layer = p.layer AND l.site = p.site
LEFT JOIN tree_task AS t ON l.run_id = t.run_id AND t.target = 'distance'
WHERE coalesce(NOT p.is_known OR abs(l.accuracy - p.n_right / t.n_scored) > CAST(0.000001 AS DOUBLE), TRUE);

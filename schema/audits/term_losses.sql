-- rule: the losses of a corpus are of the same predictions, none is left out, and paths through as many heads as there are layers are the model itself
WITH
counted AS (
    SELECT
        t.corpus_id,
        count(*) AS n_rows,
        count(DISTINCT t.n) AS n_counts,
        max(t.loss) FILTER (WHERE t.term = 'model') AS of_model,
        max(t.loss) FILTER (WHERE t.term = 'paths' AND t.most_heads = (SELECT m.n_layers FROM model AS m)) AS of_paths
    FROM term_loss AS t
    GROUP BY t.corpus_id
)

SELECT c.*
FROM counted AS c
CROSS JOIN model AS m
WHERE
    c.n_rows <> 3 * m.n_layers + 3
    OR c.n_counts <> 1
    OR c.of_model IS NULL
    OR c.of_paths IS NULL
    OR abs(c.of_model - c.of_paths) > CASE WHEN m.dtype = 'float32' THEN 1e-3 ELSE 5e-2 END;

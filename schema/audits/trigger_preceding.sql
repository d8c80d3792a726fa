-- rule: the first 20 triggers of each key and tail have the coefficients of up to 16 tokens before them in their sequence, later ones have none
WITH expected AS (
    SELECT
        t.corpus_id,
        t.layer,
        t.neuron,
        t.tail,
        t.rank,
        t.preceding,
        CASE WHEN t.rank <= 20 THEN least(16, p.index) END AS n_preceding,
        CASE WHEN t.rank <= 20 THEN t.preceding_scale >= 0 ELSE t.preceding_scale IS NULL END AS is_scaled
    FROM trigger AS t
    INNER JOIN position AS p ON t.position_id = p.position_id
)

SELECT e.*
FROM expected AS e
WHERE len(e.preceding) IS DISTINCT FROM e.n_preceding OR NOT coalesce(e.is_scaled, FALSE);

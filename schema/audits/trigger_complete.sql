-- rule: every swept key has min(k, positions of the corpus) triggers in both tails
WITH
most AS (
    SELECT
        t.corpus_id,
        max(t.rank) AS k
    FROM trigger AS t
    GROUP BY t.corpus_id
),

expected AS (
    SELECT
        s.corpus_id,
        s.layer,
        s.neuron,
        x.tail,
        least(s.n_positions, k.k) AS n_expected
    FROM neuron_statistics AS s
    CROSS JOIN (VALUES ('max'), ('min')) AS x (tail)
    INNER JOIN most AS k ON s.corpus_id = k.corpus_id
),

found AS (
    SELECT
        t.corpus_id,
        t.layer,
        t.neuron,
        t.tail,
        count(*) AS n_found
    FROM trigger AS t
    GROUP BY t.corpus_id, t.layer, t.neuron, t.tail
)

SELECT
    e.*,
    coalesce(f.n_found, 0) AS n_found
FROM expected AS e
LEFT JOIN found AS f ON e.corpus_id = f.corpus_id AND e.layer = f.layer AND e.neuron = f.neuron AND e.tail = f.tail
WHERE coalesce(f.n_found, 0) <> e.n_expected;

-- rule: the model has a row for each of its heads, once their weights were read, and heads that share keys and values are next to each other
SELECT
    m.n_layers * m.n_heads AS n_expected,
    count(h.layer) AS n_found,
    count(h.layer) FILTER (h.kv_head <> h.head * m.n_kv_heads // m.n_heads) AS n_misplaced
FROM model AS m
LEFT JOIN head AS h ON TRUE
INNER JOIN run AS r ON r.kind = 'circuit' AND r.status = 'finished'
GROUP BY r.run_id, m.n_layers, m.n_heads
HAVING count(h.layer) <> m.n_layers * m.n_heads OR count(h.layer) FILTER (h.kv_head <> h.head * m.n_kv_heads // m.n_heads) > 0;

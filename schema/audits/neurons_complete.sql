-- rule: the model has a row for each of its neurons, once its weights were read
SELECT
    m.n_layers * m.d_ffn AS n_expected,
    count(n.layer) AS n_found
FROM model AS m
LEFT JOIN neuron AS n ON TRUE
INNER JOIN run AS r ON r.kind = 'weights' AND r.status = 'finished'
GROUP BY r.run_id, m.n_layers, m.d_ffn
HAVING count(n.layer) <> m.n_layers * m.d_ffn;

-- rule: a layout has each of its neurons, or traced positions, at every layer, and one of values has all neurons
WITH
placed AS (
    SELECT
        p.run_id,
        p.layout,
        p.neuron,
        p.position_id,
        count(*) AS n_found,
        any_value(m.n_layers) AS n_wanted,
        any_value(m.d_ffn) AS d_ffn
    FROM map_point AS p
    CROSS JOIN model AS m
    GROUP BY p.run_id, p.layout, p.neuron, p.position_id
)

SELECT
    p.run_id,
    p.layout,
    p.neuron,
    p.position_id,
    p.n_found,
    p.n_wanted
FROM placed AS p
WHERE p.n_found <> p.n_wanted
UNION ALL
SELECT
    p.run_id,
    p.layout,
    NULL AS neuron,
    NULL AS position_id,
    count(*) AS n_found,
    any_value(p.d_ffn) AS n_wanted
FROM placed AS p
WHERE p.layout = 'value'
GROUP BY p.run_id, p.layout
HAVING count(*) <> any_value(p.d_ffn);

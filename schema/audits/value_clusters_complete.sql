-- rule: where a space was clustered, every neuron is in one of its clusters
WITH
recorded AS (
    SELECT DISTINCT c.space
    FROM value_cluster AS c
)

SELECT
    r.space,
    n.layer,
    n.neuron
FROM recorded AS r
CROSS JOIN neuron AS n
ANTI JOIN value_cluster AS c ON r.space = c.space AND n.layer = c.layer AND n.neuron = c.neuron;

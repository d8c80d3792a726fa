-- rule: the token that a value promotes at rank 1 is its value_top_token_id, with its value_max_prob
SELECT
    n.layer,
    n.neuron,
    n.value_top_token_id,
    v.token_id,
    n.value_max_prob,
    v.prob
FROM neuron AS n
INNER JOIN value_token AS v ON n.layer = v.layer AND n.neuron = v.neuron
WHERE
    v.direction = 'promoted'
    AND v.rank = 1
    AND (n.value_top_token_id <> v.token_id OR abs(n.value_max_prob - v.prob) > 1e-5);

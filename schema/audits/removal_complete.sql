-- rule: a trigger that was read again lost its first, its last and a random token, each once
SELECT
    r.corpus_id,
    r.layer,
    r.neuron,
    r.rank,
    count(*) AS n_rows
FROM removal AS r
GROUP BY r.corpus_id, r.layer, r.neuron, r.rank
HAVING count(*) <> 3 OR count(DISTINCT r.removed) <> 3;

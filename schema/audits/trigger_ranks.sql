-- rule: the triggers of a key and tail have the ranks 1 to k without a gap
SELECT
    t.corpus_id,
    t.layer,
    t.neuron,
    t.tail,
    count(*) AS n_rows,
    max(t.rank) AS last_rank
FROM trigger AS t
GROUP BY t.corpus_id, t.layer, t.neuron, t.tail
HAVING min(t.rank) <> 1 OR max(t.rank) <> count(*);

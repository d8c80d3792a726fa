-- rule: triggers have a context where the sweep keeps one trigger of each, and then no two of a key and tail have the same
SELECT
    t.corpus_id,
    t.layer,
    t.neuron,
    t.tail,
    t.context,
    count(*) AS n_rows
FROM trigger AS t
INNER JOIN swept_corpus AS c ON t.corpus_id = c.corpus_id
GROUP BY t.corpus_id, t.layer, t.neuron, t.tail, t.context
HAVING (any_value(c.distinct_tokens) > 0) <> (t.context IS NOT NULL) OR (t.context IS NOT NULL AND count(*) > 1);

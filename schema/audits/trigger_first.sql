-- rule: no trigger lies at an index that the sweep left out
SELECT
    t.corpus_id,
    t.layer,
    t.neuron,
    t.tail,
    t.rank,
    p.index,
    c.skip_first
FROM trigger AS t
INNER JOIN position AS p ON t.position_id = p.position_id
INNER JOIN swept_corpus AS c ON t.corpus_id = c.corpus_id
WHERE p.index < c.skip_first;

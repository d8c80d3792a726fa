-- rule: rank 1 of each tail is the largest and the smallest coefficient of the key's statistics
SELECT
    s.corpus_id,
    s.layer,
    s.neuron,
    t.tail,
    t.coefficient,
    s.min,
    s.max
FROM neuron_statistics AS s
INNER JOIN trigger AS t ON s.corpus_id = t.corpus_id AND s.layer = t.layer AND s.neuron = t.neuron
WHERE t.rank = 1 AND t.coefficient <> if(t.tail = 'max', s.max, s.min);

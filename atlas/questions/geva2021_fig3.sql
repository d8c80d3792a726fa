-- title:  How a trigger's coefficient changes when the first, the last or a random token is removed
-- source: Geva et al. 2021, section 3.1 and figure 3
-- grain:  layer, removed
-- n:      n_triggers
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- param:  floor (double, 0.1): share of its key's top coefficient that a trigger's must have to count in floored_change
-- column: layer: transformer block, from 0
-- column: removed: which token of the prefix was left out: first, last or random; BOS stays
-- column: mean_change: mean of (m' - m)/m over the triggers, m before and m' after, no unit; -0.5 is a loss of half
-- column: n_keys: keys that the triggers belong to
-- column: n_triggers: triggers averaged over
-- column: floored_change: the same mean over the triggers at or above the floor alone; null if there are none
-- column: n_floored: these triggers
-- column: n_left_out: triggers of keys of this layer that are read again, left out
-- chart:  bar(layer, mean_change)
--
-- A seeded sample of keys with at most their first 50 triggers (the run `removal` says how many of each). Left out: prefixes of one token, which have
-- nothing left, and triggers whose coefficient is not above 0, against which no change can be measured.
-- The paper's mean is over coefficients of a ReLU. Of other activations a few near 0, which any change multiplies, can lead it; the floor leaves them out.
CREATE OR REPLACE MACRO geva2021_fig3(corpus := NULL, floor := 0.1) AS TABLE
WITH corpora AS (
    SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM removal AS i), corpus := corpus) AS o
),

reread AS (
    SELECT
        t.layer,
        count(*) AS n_triggers
    FROM trigger AS t
    WHERE
        t.tail = 'max' AND t.rank <= 50 AND t.corpus_id IN (FROM corpora)
        AND (t.corpus_id, t.layer, t.neuron) IN (SELECT (i.corpus_id, i.layer, i.neuron) FROM removal AS i)
    GROUP BY t.layer
)

SELECT
    r.layer,
    r.removed,
    avg((r.coefficient - t.coefficient) / t.coefficient) AS mean_change,
    count(DISTINCT r.neuron) AS n_keys,
    count(*) AS n_triggers,
    avg((r.coefficient - t.coefficient) / t.coefficient) FILTER (t.coefficient >= floor * top.coefficient) AS floored_change,
    count(*) FILTER (t.coefficient >= floor * top.coefficient) AS n_floored,
    any_value(e.n_triggers) - count(*) AS n_left_out
FROM removal AS r
INNER JOIN reread AS e ON r.layer = e.layer
INNER JOIN trigger AS t
    ON r.corpus_id = t.corpus_id AND r.layer = t.layer AND r.neuron = t.neuron AND r.rank = t.rank
INNER JOIN trigger AS top
    ON r.corpus_id = top.corpus_id AND r.layer = top.layer AND r.neuron = top.neuron AND top.tail = 'max' AND top.rank = 1
WHERE
    t.tail = 'max' AND t.coefficient > 0
    AND r.corpus_id IN (FROM corpora)
GROUP BY r.layer, r.removed
ORDER BY r.layer, list_position(['first', 'last', 'random'], r.removed);

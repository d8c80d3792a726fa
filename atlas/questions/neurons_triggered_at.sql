-- title:  Keys that any of some positions trigger
-- source: Geva et al. 2021, section 4: what the triggers of a key have in common
-- grain:  layer, neuron, tail
-- n:      n_kept
-- param:  position_ids (bigint[]): the positions; each counts once
-- param:  n (integer, 25): how many
-- param:  tail (text, NULL): max for the largest coefficients, min for the smallest; NULL looks in both
-- param:  corpus (integer, NULL): one corpus_id; NULL counts over all corpora
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: tail: the end of the key's coefficients that the row is about
-- column: n_triggers: triggers of the tail among the positions
-- column: n_kept: the key's triggers in the tail
-- column: share: n_triggers / n_kept, in [0, 1]
-- column: expected_share: the share if triggers were positions drawn at random: that of all positions that the sweep counts, in [0, 1]
-- column: lift: share / expected_share
-- column: p_value: chance of n_triggers or more in n_kept draws at random (binomial), in [0, 1], for this key alone
-- column: best_rank: smallest rank among them, from 1
-- column: strongest_coefficient: the one largest in size, signed
-- column: position_id: that of the best rank; of two corpora, the smaller
-- chart:  bar(neuron, share)
--
-- An atlas has tens of thousands of keys with two tails each: a p-value of 1 in their number is found among keys that respond to nothing.
-- Triggers of one passage are no draws of their own, which makes p-values smaller than they should be. Over several corpora the expected share
-- is the mean over the key's triggers of that of each one's corpus.
CREATE OR REPLACE MACRO neurons_triggered_at(position_ids, n := 25, tail := NULL, corpus := NULL) AS TABLE
WITH
place AS MATERIALIZED (
    SELECT
        p.position_id,
        p.index,
        d.corpus_id
    FROM (SELECT DISTINCT unnest(position_ids) AS position_id) AS u
    INNER JOIN position AS p ON u.position_id = p.position_id
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    INNER JOIN document AS d ON s.document_id = d.document_id
    WHERE corpus IS NULL OR d.corpus_id = corpus
),

chance AS (
    SELECT
        c.corpus_id,
        -- a file of someone's may have triggers of a text whose sweep it does not name
        count(p.position_id) / any_value(coalesce(w.n_positions, c.n_positions)) AS share
    FROM corpus AS c
    LEFT JOIN swept_corpus AS w ON c.corpus_id = w.corpus_id
    LEFT JOIN place AS p ON c.corpus_id = p.corpus_id AND coalesce(w.skip_first, 0) <= p.index
    GROUP BY c.corpus_id
),

matching AS (
    SELECT
        t.layer,
        t.neuron,
        t.tail,
        count(*) AS n_triggers,
        min(t.rank) AS best_rank,
        max_by(t.coefficient, abs(t.coefficient)) AS strongest_coefficient,
        arg_min(t.position_id, (t.rank, t.position_id)) AS position_id
    FROM trigger AS t
    INNER JOIN place AS p ON t.position_id = p.position_id
    WHERE (tail IS NULL OR t.tail = tail) AND (corpus IS NULL OR t.corpus_id = corpus)
    GROUP BY t.layer, t.neuron, t.tail
    ORDER BY n_triggers DESC, best_rank, t.layer, t.neuron, t.tail
    LIMIT n
),

-- a short corpus or several corpora keep another number of triggers than k
kept AS (
    SELECT
        t.layer,
        t.neuron,
        t.tail,
        count(*) AS n_kept,
        avg(c.share) AS expected_share
    FROM trigger AS t
    INNER JOIN chance AS c ON t.corpus_id = c.corpus_id
    SEMI JOIN matching AS m ON t.layer = m.layer AND t.neuron = m.neuron
    WHERE corpus IS NULL OR t.corpus_id = corpus
    GROUP BY t.layer, t.neuron, t.tail
),

judged AS MATERIALIZED (
    SELECT
        m.*,
        k.n_kept,
        m.n_triggers / k.n_kept AS share,
        k.expected_share
    FROM matching AS m
    INNER JOIN kept AS k ON m.layer = k.layer AND m.neuron = k.neuron AND m.tail = k.tail
),

-- terms by logarithms: every one is positive, so that the sum is as exact as they are
tail_sum AS (
    SELECT
        j.layer,
        j.neuron,
        j.tail,
        sum(
            exp(
                lgamma(j.n_kept + 1) - lgamma(i.n + 1) - lgamma(j.n_kept - i.n + 1)
                + i.n * ln(j.expected_share) + if(i.n < j.n_kept, (j.n_kept - i.n) * ln(1 - j.expected_share), 0)
            )
        ) AS p_value
    FROM judged AS j
    CROSS JOIN range(j.n_triggers, j.n_kept + 1) AS i (n)
    WHERE j.expected_share < 1 OR i.n = j.n_kept
    GROUP BY j.layer, j.neuron, j.tail
)

SELECT
    j.layer,
    j.neuron,
    j.tail,
    j.n_triggers,
    j.n_kept,
    j.share,
    j.expected_share,
    j.share / j.expected_share AS lift,
    least(s.p_value, 1) AS p_value,
    j.best_rank,
    j.strongest_coefficient,
    j.position_id
FROM judged AS j
INNER JOIN tail_sum AS s ON j.layer = s.layer AND j.neuron = s.neuron AND j.tail = s.tail
ORDER BY j.n_triggers DESC, j.best_rank, j.layer, j.neuron, j.tail;

-- title:  Keys whose triggers' texts contain words
-- source: Geva et al. 2021, section 4: what the triggers of a key have in common
-- grain:  layer, neuron, tail
-- n:      n_kept
-- param:  words (text): looked for literally, upper and lower case alike
-- param:  n (integer, 25): how many
-- param:  tail (text, NULL): max for the largest coefficients, min for the smallest; NULL looks in both
-- param:  corpus (integer, NULL): one corpus_id; NULL counts over all corpora
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: tail: the end of the key's coefficients that the row is about
-- column: n_triggers: triggers of the tail whose text contains the words: at most 80 characters before the token, and the token
-- column: n_kept: the key's triggers in the tail
-- column: share: n_triggers / n_kept, in [0, 1]
-- column: expected_share: the share if triggers were positions drawn at random: that of all positions that the sweep counts, in [0, 1]
-- column: lift: share / expected_share
-- column: p_value: chance of n_triggers or more in n_kept draws at random (binomial), in [0, 1], for this key alone
-- column: best_rank: smallest rank among them, from 1
-- column: strongest_coefficient: the one largest in size, signed
-- column: text: that of the best rank; of two corpora, that of the smaller position_id
-- column: position_id: the token occurrence that it ends in
-- chart:  bar(neuron, share)
--
-- A sequence is cut from its document once and its positions from that, because finding a character takes longer the further on it stands.
CREATE OR REPLACE MACRO neurons_with_words(words, n := 25, tail := NULL, corpus := NULL) AS TABLE
WITH
span AS (
    SELECT
        p.sequence_id,
        min(p.char_start) AS char_start,
        max(p.char_end) AS char_end
    FROM position AS p
    GROUP BY p.sequence_id
),

excerpt AS MATERIALIZED (
    SELECT
        e.sequence_id,
        e.char_start,
        substr(d.text, e.char_start + 1, e.char_end - e.char_start) AS text,
        contains(lower(text), lower(words)) AS has_words
    FROM span AS e
    INNER JOIN sequence AS s ON e.sequence_id = s.sequence_id
    INNER JOIN document AS d ON s.document_id = d.document_id
    WHERE corpus IS NULL OR d.corpus_id = corpus
),

lettered AS (
    SELECT
        p.position_id,
        substr(e.text, greatest(p.char_start - 79, e.char_start + 1) - e.char_start, least(80, p.char_start - e.char_start))
        || if(p.char_end > p.char_start, substr(e.text, p.char_start - e.char_start + 1, p.char_end - p.char_start), k.text) AS text
    FROM position AS p
    INNER JOIN excerpt AS e ON p.sequence_id = e.sequence_id
    INNER JOIN token AS k ON p.token_id = k.token_id
    -- a token with no characters is shown by the vocabulary's text, which the sequence does not have
    WHERE e.has_words OR p.char_end = p.char_start
),

place AS MATERIALIZED (
    SELECT l.position_id
    FROM lettered AS l
    WHERE contains(lower(l.text), lower(words))
)

SELECT
    m.layer,
    m.neuron,
    m.tail,
    m.n_triggers,
    m.n_kept,
    m.share,
    m.expected_share,
    m.lift,
    m.p_value,
    m.best_rank,
    m.strongest_coefficient,
    l.text,
    m.position_id
FROM neurons_triggered_at((SELECT list(i.position_id) FROM place AS i), n := n, tail := tail, corpus := corpus) AS m
INNER JOIN lettered AS l ON m.position_id = l.position_id
ORDER BY m.n_triggers DESC, m.best_rank, m.layer, m.neuron, m.tail;

-- title:  Which attention heads follow a relation of words, above the best fixed offset
-- source: Clark et al. 2019, table 1; tables head_relation and word_relation
-- grain:  run_id, relation, looks_at, layer, head
-- n:      n_test
-- param:  relation (text, NULL): one relation, any for all but punctuation; NULL gives each
-- param:  n (integer, 1): heads of each relation and direction, by their accuracy in the documents to choose by
-- param:  min_pairs (integer, 20): pairs of words of the test that a relation must have
-- param:  run (integer, NULL): one run of the pass head_relation; NULL gives the rows of each
-- column: run_id: the run
-- column: relation: what the dependent is to its head, as the source of the words names it
-- column: looks_at: which of the two words stands first, so that the other can look back at it
-- column: layer: transformer block, from 0
-- column: head: head of the layer, from 0
-- column: accuracy: share of the pairs of the test in which the later word puts most weight on the other, in [0, 1]
-- column: offset_accuracy: share of the pairs of the test that are as far apart as is commonest
-- column: gain: accuracy - offset_accuracy
-- column: offset_words: that distance, in words
-- column: chosen_accuracy: accuracy in the documents that the head was chosen by, which flatters it
-- column: n_words: pairs of words to choose by
-- column: n_test: pairs of the test, in other documents
-- column: n_left_out_undrawn: pairs in sentences that were not drawn; this and the next three are null of runs that are older than the columns
-- column: n_left_out_split: pairs in sentences that do not lie in one sequence
-- column: n_left_out_long: pairs in sentences of more than 100 words or 512 tokens
-- column: n_left_out_unread: pairs of which one word is at index 0, ends with no token, or shares one with the other
-- chart:  bar(relation, gain)
CREATE OR REPLACE MACRO head_relations(relation := NULL, n := 1, min_pairs := 20, run := NULL) AS TABLE
WITH
best AS (
    SELECT h.*
    FROM head_relation AS h
    WHERE (relation IS NULL OR h.relation = relation) AND (run IS NULL OR h.run_id = run) AND h.accuracy IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY h.run_id, h.relation, h.looks_at ORDER BY h.accuracy DESC, h.layer, h.head) <= n
)

SELECT
    b.run_id,
    b.relation,
    b.looks_at,
    b.layer,
    b.head,
    b.test_accuracy AS accuracy,
    CAST(w.offset_test_accuracy AS REAL) AS offset_accuracy,
    b.test_accuracy - CAST(w.offset_test_accuracy AS REAL) AS gain,
    w.offset_words,
    b.accuracy AS chosen_accuracy,
    w.n_words,
    w.n_test,
    w.n_left_out_undrawn,
    w.n_left_out_split,
    w.n_left_out_long,
    w.n_left_out_unread
FROM best AS b
INNER JOIN word_relation AS w ON b.run_id = w.run_id AND b.relation = w.relation AND b.looks_at = w.looks_at
WHERE w.n_test >= min_pairs
ORDER BY b.run_id, w.n_test DESC, b.relation, b.looks_at, b.accuracy DESC, b.layer, b.head;

-- title:  Where a label of words is readable, above what a probe can memorise
-- source: Hewitt and Liang 2019, control tasks and selectivity; Voita and Titov 2020, online codelength; tables probe and probe_task
-- grain:  run_id, layer, site
-- n:      n_test
-- param:  task (text, 'pos'): pos, tag, relation, entity, token, next_token, frequency, index, starts_word or sentence_end
-- param:  run (integer, NULL): one run of the pass probe; NULL gives the rows of each
-- column: run_id: the run
-- column: layer: transformer block, from 0
-- column: site: resid_pre of layer 0, resid_post of the layers that were probed
-- column: accuracy: share of the words of the test whose label the probe tells, in [0, 1]
-- column: accuracy_low: lower end of its 95% interval over documents; null where there is none
-- column: accuracy_high: upper end
-- column: n_clusters: documents of the test, which the interval is over; null where it is of an earlier release
-- column: interval_note: how the interval was made, or why there is none
-- column: control_accuracy: of a probe that learns a label drawn for each type of word: what it can memorise
-- column: selectivity: accuracy - control_accuracy
-- column: unseen_accuracy: accuracy on words whose type was not among those to learn from
-- column: untrained_accuracy: accuracy in the same architecture with random weights
-- column: type_accuracy: accuracy of the type's most frequent label, which needs no state
-- column: majority_accuracy: accuracy of the most frequent label
-- column: kilobits: online codelength of the labels to learn from, in 1,000 bits: less is easier to read
-- column: compression: bits of a code in which all labels are alike, over this codelength
-- column: control_kilobits: the codelength of the control
-- column: n_train: words to learn from
-- column: n_test: words of the test, in other documents
-- column: n_left_out: words of the corpus in neither: at index 0, ending with no token, not drawn, or without such a label
-- column: n_classes: labels
-- column: is_converged: whether all three fits ended before their last step
-- column: rank: directions of a state that the probes can read at most; null of runs that are older than the column
-- chart:  line(layer, accuracy)
-- needs:  probe
CREATE OR REPLACE MACRO probe_layers(task := 'pos', run := NULL) AS TABLE
WITH
of_place AS (
    SELECT
        p.run_id,
        p.task,
        p.layer,
        p.site,
        max(p.accuracy) FILTER (WHERE p.kind = 'label') AS accuracy,
        max(p.accuracy_low) FILTER (WHERE p.kind = 'label') AS accuracy_low,
        max(p.accuracy_high) FILTER (WHERE p.kind = 'label') AS accuracy_high,
        max(p.n_clusters) FILTER (WHERE p.kind = 'label') AS n_clusters,
        max(p.interval_note) FILTER (WHERE p.kind = 'label') AS interval_note,
        max(p.unseen_accuracy) FILTER (WHERE p.kind = 'label') AS unseen_accuracy,
        max(p.codelength) FILTER (WHERE p.kind = 'label') AS codelength,
        max(p.accuracy) FILTER (WHERE p.kind = 'control') AS control_accuracy,
        max(p.codelength) FILTER (WHERE p.kind = 'control') AS control_codelength,
        max(p.accuracy) FILTER (WHERE p.kind = 'untrained') AS untrained_accuracy,
        bool_and(p.is_converged) AS is_converged,
        max(p.rank) AS rank
    FROM probe AS p
    WHERE p.task = task AND (run IS NULL OR p.run_id = run)
    GROUP BY p.run_id, p.task, p.layer, p.site
),

of_text AS (
    SELECT
        w.corpus_id,
        count(*) AS n_words
    FROM word AS w
    GROUP BY w.corpus_id
)

SELECT
    o.run_id,
    o.layer,
    o.site,
    o.accuracy,
    o.accuracy_low,
    o.accuracy_high,
    o.n_clusters,
    coalesce(o.interval_note, 'percentile bootstrap of an earlier release: too narrow over few clusters') AS interval_note,
    o.control_accuracy,
    o.accuracy - o.control_accuracy AS selectivity,
    o.unseen_accuracy,
    o.untrained_accuracy,
    t.type_accuracy,
    t.majority_accuracy,
    o.codelength / 1000 AS kilobits,
    t.n_train * log2(t.n_classes) / o.codelength AS compression,
    o.control_codelength / 1000 AS control_kilobits,
    t.n_train,
    t.n_test,
    w.n_words - t.n_train - t.n_test AS n_left_out,
    t.n_classes,
    o.is_converged,
    o.rank
FROM of_place AS o
INNER JOIN probe_task AS t ON o.run_id = t.run_id AND o.task = t.task
INNER JOIN of_text AS w ON t.corpus_id = w.corpus_id
ORDER BY o.run_id, o.layer, o.site DESC;

-- title:  How often the model prefers what it should, by paradigm of each suite
-- source: view scored_item; minimal pairs (Warstadt et al. 2020), region tests (Gauthier et al. 2020), templates (Ribeiro et al. 2020)
-- grain:  corpus_id, suite, kind, paradigm
-- n:      n_items
-- param:  corpus (integer, NULL): one corpus_id; NULL gives all, each by itself
-- column: corpus_id: the suite as a corpus
-- column: suite: its name
-- column: kind: pair, region, mft, inv or dir
-- column: paradigm: what its items test; null in the row of all paradigms together
-- column: n_items: items with a score
-- column: n_right: those that are passed; a tie is wrong
-- column: accuracy: their share; of all paradigms together that of all items (micro average)
-- column: accuracy_low: lower end of its 95% Wilson interval
-- column: accuracy_high: upper end
-- column: macro_accuracy: mean of the paradigms' accuracies, each counted once
-- column: accuracy_per_token: share right by mean log-probability a token; null of other kinds than pair and mft
-- column: accuracy_critical: share right by the critical region alone, of the pairs that have one
-- column: mean_margin: mean of scored_item.margin, in nats
-- chart:  bar(paradigm, accuracy)
CREATE OR REPLACE MACRO test_suites(corpus := NULL) AS TABLE
WITH
of_paradigm AS (
    SELECT
        s.corpus_id,
        s.suite,
        s.kind,
        s.paradigm,
        count(*) AS n_items,
        count(*) FILTER (s.is_right) AS n_right,
        avg(CAST(s.is_right_per_token AS INTEGER)) AS per_token,
        avg(CAST(s.is_right_critical AS INTEGER)) AS critical,
        count(s.is_right_per_token) AS n_per_token,
        count(s.is_right_critical) AS n_critical,
        avg(s.margin) AS margin
    FROM scored_item AS s
    WHERE s.is_right IS NOT NULL AND (corpus IS NULL OR s.corpus_id = corpus)
    GROUP BY s.corpus_id, s.suite, s.kind, s.paradigm
),

counted AS (
    SELECT
        p.corpus_id,
        p.suite,
        p.kind,
        p.paradigm,
        sum(p.n_items) AS n_items,
        sum(p.n_right) AS n_right,
        avg(p.n_right / p.n_items) AS macro_accuracy,
        sum(p.per_token * p.n_per_token) / sum(p.n_per_token) AS accuracy_per_token,
        sum(p.critical * p.n_critical) / sum(p.n_critical) AS accuracy_critical,
        sum(p.margin * p.n_items) / sum(p.n_items) AS mean_margin
    FROM of_paradigm AS p
    GROUP BY GROUPING SETS ((p.corpus_id, p.suite, p.kind, p.paradigm), (p.corpus_id, p.suite, p.kind))
),

bounded AS (
    -- Wilson 1927, at 1.96 standard deviations
    SELECT
        c.*,
        c.n_right / c.n_items AS accuracy,
        1.959963984540054 ** 2 / c.n_items AS z
    FROM counted AS c
)

SELECT
    b.corpus_id,
    b.suite,
    b.kind,
    b.paradigm,
    CAST(b.n_items AS BIGINT) AS n_items,
    CAST(b.n_right AS BIGINT) AS n_right,
    b.accuracy,
    (b.accuracy + b.z / 2 - sqrt(b.z * (b.accuracy * (1 - b.accuracy) + b.z / 4))) / (1 + b.z) AS accuracy_low,
    (b.accuracy + b.z / 2 + sqrt(b.z * (b.accuracy * (1 - b.accuracy) + b.z / 4))) / (1 + b.z) AS accuracy_high,
    b.macro_accuracy,
    b.accuracy_per_token,
    b.accuracy_critical,
    b.mean_margin
FROM bounded AS b
ORDER BY b.corpus_id, b.suite, b.kind, b.paradigm NULLS LAST;

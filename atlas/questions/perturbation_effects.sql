-- title:  How much moves when the meaning does not
-- source: view perturbation_outcome, tables test_region and position_prediction; invariance tests (Ribeiro et al. 2020)
-- grain:  corpus_id, suite, paradigm, perturbation
-- n:      n_texts
-- param:  suite (text, NULL): as test_suites lists them; NULL takes all
-- column: corpus_id: the suite as a corpus
-- column: suite: its name
-- column: paradigm: what its items test
-- column: perturbation: what was done to the text
-- column: n_texts: texts it was done to
-- column: kept_top: share whose most probable token at the end is the same
-- column: mean_divergence: mean Jensen-Shannon divergence of the predictions at the end, in nats
-- column: max_divergence: the largest
-- column: share_passed: share that keeps the token and stays below the item's delta
-- column: mean_change: mean change of surprisal of the tokens behind the edit that both texts have at the same characters, without sign, in nats
-- column: n_aligned: these tokens
-- chart:  bar(perturbation, mean_divergence)
CREATE OR REPLACE MACRO perturbation_effects(suite := NULL) AS TABLE
WITH
asked AS (
    SELECT o.*
    FROM perturbation_outcome AS o
    WHERE suite IS NULL OR o.suite = suite
),

named AS (
    SELECT DISTINCT unnest([a.document_id, a.original_document_id]) AS document_id
    FROM asked AS a
),

-- a token's characters are counted from the end of the text, since what follows the edit is the same in both
spoken AS (
    SELECT
        d.document_id,
        i.position_id,
        i.token_id,
        length(d.text) - i.char_start AS n_from_start,
        length(d.text) - i.char_end AS n_from_end,
        CAST(lag(p.surprisal) OVER (PARTITION BY d.document_id ORDER BY i.position_id) AS DOUBLE) AS surprisal
    FROM named AS t
    INNER JOIN document AS d ON t.document_id = d.document_id
    INNER JOIN sequence AS s ON d.document_id = s.document_id
    INNER JOIN position AS i ON s.sequence_id = i.sequence_id
    INNER JOIN position_prediction AS p ON i.position_id = p.position_id
),

moved AS (
    SELECT
        a.document_id,
        count(o.surprisal) AS n_aligned,
        sum(abs(b.surprisal - o.surprisal)) AS change
    FROM asked AS a
    INNER JOIN test_region AS r ON a.document_id = r.document_id AND r.region = 'after'
    INNER JOIN spoken AS b ON a.document_id = b.document_id AND b.position_id BETWEEN r.first_position_id AND r.last_position_id
    INNER JOIN spoken AS o
        ON a.original_document_id = o.document_id AND b.n_from_start = o.n_from_start AND b.n_from_end = o.n_from_end AND b.token_id = o.token_id
    GROUP BY a.document_id
)

SELECT
    a.corpus_id,
    a.suite,
    a.paradigm,
    a.perturbation,
    count(*) AS n_texts,
    avg(CAST(a.is_top_kept AS INTEGER)) AS kept_top,
    avg(a.divergence) AS mean_divergence,
    max(a.divergence) AS max_divergence,
    avg(CAST(a.is_top_kept AND a.divergence < a.delta AS INTEGER)) AS share_passed,
    sum(m.change) / sum(m.n_aligned) AS mean_change,
    CAST(coalesce(sum(m.n_aligned), 0) AS BIGINT) AS n_aligned
FROM asked AS a
LEFT JOIN moved AS m ON a.document_id = m.document_id
GROUP BY a.corpus_id, a.suite, a.paradigm, a.perturbation
ORDER BY a.corpus_id, a.suite, a.paradigm, a.perturbation;

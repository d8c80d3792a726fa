-- title:  Whether each item of a test was passed
-- source: views scored_sentence, formula_item and perturbation_item
-- grain:  corpus_id, suite, paradigm, item
CREATE OR REPLACE VIEW scored_item AS
WITH
compared AS (
    SELECT
        s.corpus_id,
        s.suite,
        s.paradigm,
        s.item,
        s.kind,
        max(s.logprob) FILTER (s.role IN ('good', 'expected')) AS wanted,
        max(s.logprob) FILTER (s.role IN ('bad', 'rival')) AS rival,
        max(s.logprob_per_token) FILTER (s.role IN ('good', 'expected')) AS wanted_each,
        max(s.logprob_per_token) FILTER (s.role IN ('bad', 'rival')) AS rival_each,
        max(s.critical_logprob) FILTER (s.role = 'good') AS wanted_critical,
        max(s.critical_logprob) FILTER (s.role = 'bad') AS rival_critical,
        max(s.logprob) FILTER (s.role = 'changed') - max(s.logprob) FILTER (s.role = 'original') AS moved,
        any_value(s.expectation) AS expectation,
        any_value(s.delta) AS delta,
        count(*) AS n_sentences
    FROM scored_sentence AS s
    GROUP BY s.corpus_id, s.suite, s.paradigm, s.item, s.kind
),

judged AS (
    SELECT
        c.*,
        CASE c.kind
            WHEN 'dir' THEN if(c.expectation = 'down', -c.moved, c.moved) - c.delta
            WHEN 'inv' THEN p.margin
            WHEN 'region' THEN f.margin
            ELSE c.wanted - c.rival
        END AS margin,
        p.are_tops_kept
    FROM compared AS c
    LEFT JOIN perturbation_item AS p ON c.corpus_id = p.corpus_id AND c.suite = p.suite AND c.paradigm = p.paradigm AND c.item = p.item
    LEFT JOIN formula_item AS f ON c.corpus_id = f.corpus_id AND c.suite = f.suite AND c.paradigm = f.paradigm AND c.item = f.item
)

SELECT
    j.corpus_id,
    j.suite,
    j.paradigm,
    j.item,
    j.kind,
    j.n_sentences,
    j.margin > 0 AND coalesce(j.are_tops_kept, TRUE) AS is_right,
    j.margin,
    j.wanted_each > j.rival_each AS is_right_per_token,
    j.wanted_critical > j.rival_critical AS is_right_critical
FROM judged AS j;
COMMENT ON VIEW scored_item IS 'One row an item; a tie is wrong. Null where the suite was read without predictions.';
COMMENT ON COLUMN scored_item.corpus_id IS 'The suite as a corpus.';
COMMENT ON COLUMN scored_item.suite IS 'The suite.';
COMMENT ON COLUMN scored_item.paradigm IS 'What the item tests.';
COMMENT ON COLUMN scored_item.item IS 'Its name.';
COMMENT ON COLUMN scored_item.kind IS 'pair, region, mft, inv or dir.';
COMMENT ON COLUMN scored_item.n_sentences IS 'Sentences it compares.';
COMMENT ON COLUMN scored_item.is_right IS 'Whether it is passed: the margin is above 0 and, of inv, every top token stays.';
COMMENT ON COLUMN scored_item.margin IS 'By how much, in nats: over the best rival, over delta, below delta, or by the formula that holds least.';
COMMENT ON COLUMN scored_item.is_right_per_token IS 'The same comparison of mean log-probabilities a token; null of other kinds than pair and mft.';
COMMENT ON COLUMN scored_item.is_right_critical IS 'The same comparison of the critical regions alone; null where a pair has none.';

-- title:  The items of a paradigm, those that were failed by most first
-- source: views scored_item and scored_sentence
-- grain:  corpus_id, suite, item, document_id
-- param:  paradigm (text): as test_suites lists them
-- param:  failed (text, 'yes'): yes: those alone that were failed; no: all
-- param:  n (integer, 100): items
-- column: corpus_id: the suite as a corpus
-- column: suite: its name
-- column: item: name of the item
-- column: is_right: whether it was passed
-- column: margin: by how much, in nats; below 0 it was failed by so much
-- column: document_id: a sentence of the item
-- column: role: good or bad; expected or rival; a condition; original, perturbed or changed
-- column: text: the sentence
-- column: logprob: sum of the log-probabilities of its tokens, in nats; of a part where only that is scored
-- column: n_tokens: the tokens that are scored
-- column: critical_logprob: the sum over the critical region alone; null where there is none
-- column: expectation: what is expected, as in table test_item
-- column: last_position_id: its last token; reading(…) shows how surprising each token was
-- chart:  bar(text, logprob)
CREATE OR REPLACE MACRO test_items(paradigm, failed := 'yes', n := 100) AS TABLE
WITH
shown AS (
    SELECT i.*
    FROM scored_item AS i
    WHERE i.paradigm = paradigm AND (failed <> 'yes' OR NOT i.is_right)
    QUALIFY row_number() OVER (ORDER BY i.margin, i.corpus_id, i.suite, i.item) <= n
),

sentence_of AS (
    SELECT
        s.*,
        q.first_position_id + q.n_positions - 1 AS last_position_id
    FROM scored_sentence AS s
    INNER JOIN sequence AS q ON s.document_id = q.document_id
    WHERE s.paradigm = paradigm
)

SELECT
    i.corpus_id,
    i.suite,
    i.item,
    i.is_right,
    i.margin,
    s.document_id,
    s.role,
    s.text,
    s.logprob,
    s.n_tokens,
    s.critical_logprob,
    s.expectation,
    s.last_position_id
FROM shown AS i
INNER JOIN sentence_of AS s ON i.corpus_id = s.corpus_id AND i.suite = s.suite AND i.item = s.item
ORDER BY i.margin, i.corpus_id, i.suite, i.item, s.document_id;

-- title:  How probable each sentence of a test is
-- source: table test_item, view region_surprisal
-- grain:  document_id
CREATE OR REPLACE VIEW scored_sentence AS
SELECT
    d.corpus_id,
    t.*,
    d.text,
    coalesce(r.n_tokens, w.n_tokens) AS n_tokens,
    -coalesce(r.surprisal, w.surprisal) AS logprob,
    -coalesce(r.surprisal, w.surprisal) / coalesce(r.n_tokens, w.n_tokens) AS logprob_per_token,
    -c.surprisal AS critical_logprob
FROM test_item AS t
INNER JOIN document AS d ON t.document_id = d.document_id
LEFT JOIN region_surprisal AS w ON t.document_id = w.document_id AND w.region = '*'
LEFT JOIN region_surprisal AS r ON t.document_id = r.document_id AND r.region = 'scored'
LEFT JOIN region_surprisal AS c ON t.document_id = c.document_id AND c.region = 'critical';
COMMENT ON VIEW scored_sentence IS 'test_item with the log-probability of the sentence: null where the suite was read without predictions.';
COMMENT ON COLUMN scored_sentence.corpus_id IS 'The suite as a corpus.';
COMMENT ON COLUMN scored_sentence.document_id IS 'The sentence.';
COMMENT ON COLUMN scored_sentence.kind IS 'pair, region, mft, inv or dir.';
COMMENT ON COLUMN scored_sentence.suite IS 'The suite it belongs to.';
COMMENT ON COLUMN scored_sentence.paradigm IS 'What the item tests.';
COMMENT ON COLUMN scored_sentence.item IS 'Name of the item.';
COMMENT ON COLUMN scored_sentence.role IS 'What the sentence is to its item.';
COMMENT ON COLUMN scored_sentence.expectation IS 'What is expected, as in test_item.';
COMMENT ON COLUMN scored_sentence.delta IS 'The threshold, as in test_item, in nats.';
COMMENT ON COLUMN scored_sentence.text IS 'The sentence.';
COMMENT ON COLUMN scored_sentence.n_tokens IS 'Tokens that are scored.';
COMMENT ON COLUMN scored_sentence.logprob IS 'Sum of their log-probabilities, in nats: of all, the first behind BOS included, or of the region scored.';
COMMENT ON COLUMN scored_sentence.logprob_per_token IS 'The same over the number of tokens.';
COMMENT ON COLUMN scored_sentence.critical_logprob IS 'The same sum over the tokens of the critical region; null where there is none.';

-- title:  Predictions of what follows, the model's and that of counting, with where they were made
-- source: tables position_prediction and ngram_prediction
-- grain:  position_id
CREATE OR REPLACE VIEW scored_position AS
SELECT
    c.corpus_id,
    d.document_id,
    i.index,
    i.token_id,
    i.next_token_id,
    p.*,
    g3.surprisal AS surprisal_ngram3,
    g3.matched_order AS matched_order_ngram3,
    g5.surprisal AS surprisal_ngram5,
    g5.matched_order AS matched_order_ngram5
FROM position_prediction AS p
INNER JOIN position AS i ON p.position_id = i.position_id
INNER JOIN sequence AS s ON i.sequence_id = s.sequence_id
INNER JOIN document AS d ON s.document_id = d.document_id
INNER JOIN corpus AS c ON d.corpus_id = c.corpus_id
LEFT JOIN ngram_prediction AS g3 ON p.position_id = g3.position_id AND g3.ngram_order = 3
LEFT JOIN ngram_prediction AS g5 ON p.position_id = g5.position_id AND g5.ngram_order = 5;
COMMENT ON VIEW scored_position IS 'position_prediction with its place, and counting beside it. Index 0 sees one token or BOS alone: leave it out of means.';
COMMENT ON COLUMN scored_position.corpus_id IS 'The corpus it lies in.';
COMMENT ON COLUMN scored_position.document_id IS 'The document it lies in.';
COMMENT ON COLUMN scored_position.index IS 'Place in the sequence, from 0.';
COMMENT ON COLUMN scored_position.token_id IS 'The token read there.';
COMMENT ON COLUMN scored_position.next_token_id IS 'The corpus token that follows; null at the end of a document.';
COMMENT ON COLUMN scored_position.position_id IS 'The token occurrence.';
COMMENT ON COLUMN scored_position.surprisal IS 'Negative log-probability of the token that follows, in nats; null where none does.';
COMMENT ON COLUMN scored_position.entropy IS 'Entropy of the probabilities of all tokens, in nats.';
COMMENT ON COLUMN scored_position.next_token_rank IS 'Rank of the token that follows, from 1; null where none does.';
COMMENT ON COLUMN scored_position.top_token_id IS 'The most probable token.';
COMMENT ON COLUMN scored_position.top_prob IS 'Its probability, in [0, 1].';
COMMENT ON COLUMN scored_position.starts_word_prob IS 'Probability of all tokens together behind which no word goes on.';
COMMENT ON COLUMN scored_position.surprisal_ngram3 IS 'The surprisal by counted 3-grams, in nats; null where nothing was counted, and at BOS.';
COMMENT ON COLUMN scored_position.matched_order_ngram3 IS '1 + tokens of the longest context that the counts have, at most 2 of them.';
COMMENT ON COLUMN scored_position.surprisal_ngram5 IS 'The surprisal by counted 5-grams, in nats.';
COMMENT ON COLUMN scored_position.matched_order_ngram5 IS '1 + tokens of the longest context that the counts have, at most 4 of them.';

-- title:  How often tokens follow each other in each corpus
-- source: table position
-- grain:  corpus_id, token_id, next_token_id
CREATE OR REPLACE VIEW bigram AS
SELECT
    d.corpus_id,
    p.token_id,
    p.next_token_id,
    count(*) AS n
FROM position AS p
INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
INNER JOIN document AS d ON s.document_id = d.document_id
INNER JOIN token AS k ON p.token_id = k.token_id
-- a special token without text at index 0 is BOS, which is in no text
WHERE p.next_token_id IS NOT NULL AND NOT (p.index = 0 AND p.char_start = p.char_end AND k.is_special)
GROUP BY d.corpus_id, p.token_id, p.next_token_id;
COMMENT ON VIEW bigram IS 'How often tokens follow each other in each corpus, also across a cut; BOS, which is in no text, is followed by none.';
COMMENT ON COLUMN bigram.corpus_id IS 'The corpus.';
COMMENT ON COLUMN bigram.token_id IS 'The token that is followed.';
COMMENT ON COLUMN bigram.next_token_id IS 'The token that follows it.';
COMMENT ON COLUMN bigram.n IS 'How often it does.';

-- title:  The traced positions, and whether the model was right there
-- source: table trace
-- grain:  position_id
-- param:  words (text, NULL): only where the text contains them literally, upper and lower case alike; NULL takes every text
-- param:  n (integer, 100): how many, the first in order of corpus and position
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora
-- column: position_id: the token occurrence
-- column: text_before: at most 80 characters that the model had read before the token; with the token the text that words are looked for in
-- column: token: characters of the token there
-- column: final_token: the model's final prediction
-- column: final_prob: its probability, in [0, 1]
-- column: next_token: the corpus token that follows; null where the document ends
-- column: next_token_rank: its rank in the model's output, from 1; null where the document ends
-- column: is_right: whether the prediction is the next token; null where the document ends
-- column: document: name of the document
-- column: metadata: what the corpus says of the document, JSON
-- column: corpus_id: the corpus it lies in
-- column: index: place in the sequence, from 0
-- chart:  tokens(token, final_prob)
--
-- Where no words are given only the n positions that are shown have their text cut.
CREATE OR REPLACE MACRO traced_positions(words := NULL, n := 100, corpus := NULL) AS TABLE
WITH
considered AS MATERIALIZED (
    SELECT t.position_id
    FROM traced_position AS t
    WHERE corpus IS NULL OR t.corpus_id = corpus
    QUALIFY words IS NOT NULL OR row_number() OVER (ORDER BY t.corpus_id, t.position_id) <= n
)

SELECT
    c.position_id,
    c.text_before,
    c.token,
    w.text AS final_token,
    t.final_prob,
    c.next_token,
    t.next_token_rank,
    t.final_token_id = p.next_token_id AS is_right,
    c.document,
    c.metadata,
    c.corpus_id,
    c.index
FROM token_context((SELECT list(i.position_id) FROM considered AS i)) AS c
INNER JOIN trace AS t ON c.position_id = t.position_id
INNER JOIN position AS p ON c.position_id = p.position_id
INNER JOIN token AS w ON t.final_token_id = w.token_id
WHERE words IS NULL OR contains(lower(c.text_before || c.token), lower(words))
ORDER BY c.corpus_id, c.position_id
LIMIT n;

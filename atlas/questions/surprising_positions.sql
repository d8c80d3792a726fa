-- title:  Where the model was surest and wrong
-- source: table position_prediction
-- grain:  position_id
-- param:  n (integer, 20): how many
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora
-- column: position_id: the token occurrence
-- column: text_before: at most 80 characters that the model had read before the token
-- column: token: characters of the token there
-- column: top_token: the most probable token, which does not follow
-- column: top_prob: its probability, in [0, 1]
-- column: next_token: the token that follows
-- column: next_token_rank: its rank, from 2
-- column: surprisal: its negative log-probability, in nats
-- column: surprisal_ngram5: the same by counted 5-grams; null where nothing was counted
-- column: document: name of the document
-- column: corpus_id: the corpus it lies in
-- column: index: place in the sequence, from 1: index 0 sees one token or BOS alone
-- chart:  tokens(token, top_prob)
CREATE OR REPLACE MACRO surprising_positions(n := 20, corpus := NULL) AS TABLE
WITH
wrong AS MATERIALIZED (
    SELECT p.*
    FROM scored_position AS p
    WHERE p.next_token_rank > 1 AND p.index > 0 AND (corpus IS NULL OR p.corpus_id = corpus)
    QUALIFY row_number() OVER (ORDER BY p.top_prob DESC, p.surprisal DESC, p.position_id) <= n
)

SELECT
    c.position_id,
    c.text_before,
    c.token,
    k.text AS top_token,
    w.top_prob,
    c.next_token,
    w.next_token_rank,
    w.surprisal,
    w.surprisal_ngram5,
    c.document,
    c.corpus_id,
    c.index
FROM token_context((SELECT list(i.position_id) FROM wrong AS i)) AS c
INNER JOIN wrong AS w ON c.position_id = w.position_id
INNER JOIN token AS k ON w.top_token_id = k.token_id
ORDER BY w.top_prob DESC, w.surprisal DESC, c.position_id;

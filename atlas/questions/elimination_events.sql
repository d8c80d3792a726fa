-- title:  Where an FFN takes the top candidate down, with the text
-- source: Geva et al. 2022, section 5.2: of each position the event where the candidate falls furthest
-- grain:  position_id
-- param:  layer (integer, NULL): only this layer; NULL takes every layer
-- param:  n (integer, 25): how many, those first whose candidate falls furthest
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora
-- param:  input_token (text, 'yes'): yes takes all; no leaves out those that take down the very token that was just read
-- column: layer: block of the FFN that takes the candidate down, from 0
-- column: text_before: at most 80 characters that the model had read before the token
-- column: token: characters of the token there
-- column: candidate: top token at resid_mid, by the logit lens like its probability, its rank and the new top token
-- column: is_input_token: whether the candidate is the very token that was read there
-- column: candidate_prob_before: its probability at resid_mid, in [0, 1]
-- column: candidate_rank_after: its rank at resid_post, from 2
-- column: new_top_token: top token at resid_post
-- column: next_token: the corpus token that follows; null where the document ends
-- column: document: name of the document
-- column: metadata: what the corpus says of the document, JSON
-- column: corpus_id: the corpus it lies in
-- column: position_id: the token occurrence
-- column: index: place in the sequence, from 0
-- chart:  histogram(layer)
--
-- The view `elimination` has every event, also those that are not the largest of their position. With tied embeddings most events take down the
-- token that was just read.
CREATE OR REPLACE MACRO elimination_events(layer := NULL, n := 25, corpus := NULL, input_token := 'yes') AS TABLE
WITH
event AS MATERIALIZED (
    SELECT e.*
    FROM elimination AS e
    INNER JOIN trace AS t ON e.position_id = t.position_id
    INNER JOIN run AS r ON t.run_id = r.run_id
    WHERE
        e.is_largest_fall
        AND (layer IS NULL OR e.layer = layer)
        AND (corpus IS NULL OR r.corpus_id = corpus)
        AND (input_token = 'yes' OR NOT e.is_input_token)
    ORDER BY e.candidate_rank_after DESC, e.position_id
    LIMIT n
)

SELECT
    e.layer,
    c.text_before,
    c.token,
    w.text AS candidate,
    e.is_input_token,
    e.candidate_prob_before,
    e.candidate_rank_after,
    f.text AS new_top_token,
    c.next_token,
    c.document,
    c.metadata,
    c.corpus_id,
    e.position_id,
    c.index
FROM event AS e
INNER JOIN token_context((SELECT list(i.position_id) FROM event AS i)) AS c ON e.position_id = c.position_id
INNER JOIN token AS w ON e.candidate_token_id = w.token_id
INNER JOIN token AS f ON e.new_token_id = f.token_id
ORDER BY e.candidate_rank_after DESC, e.position_id;

-- title:  Where an FFN settles the prediction, with the text
-- source: Geva et al. 2022, section 5.2: saturation, before the last layer
-- grain:  position_id, layer
-- param:  layer (integer, NULL): only this layer; NULL takes every layer
-- param:  n (integer, 25): how many, those first that gain most probability
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora
-- column: layer: block of the FFN that lifts the final prediction to the top, from 0
-- column: text_before: at most 80 characters that the model had read before the token
-- column: token: characters of the token there
-- column: final_token: the model's final prediction
-- column: final_prob_before: its probability at resid_mid, by the logit lens like all ranks and top tokens, in [0, 1]
-- column: final_prob_after: its probability at resid_post, in [0, 1]
-- column: final_rank_before: its rank at resid_mid, from 2
-- column: former_token: top token at resid_mid
-- column: next_token: the corpus token that follows; null where the document ends
-- column: document: name of the document
-- column: metadata: what the corpus says of the document, JSON
-- column: corpus_id: the corpus it lies in
-- column: position_id: the token occurrence
-- column: index: place in the sequence, from 0
-- chart:  histogram(layer)
CREATE OR REPLACE MACRO saturation_events(layer := NULL, n := 25, corpus := NULL) AS TABLE
WITH
event AS MATERIALIZED (
    SELECT e.*
    FROM saturation AS e
    INNER JOIN trace AS t ON e.position_id = t.position_id
    INNER JOIN run AS r ON t.run_id = r.run_id
    WHERE (layer IS NULL OR e.layer = layer) AND (corpus IS NULL OR r.corpus_id = corpus)
    ORDER BY e.final_prob_after - e.final_prob_before DESC, e.position_id, e.layer
    LIMIT n
)

SELECT
    e.layer,
    c.text_before,
    c.token,
    w.text AS final_token,
    e.final_prob_before,
    e.final_prob_after,
    e.final_rank_before,
    f.text AS former_token,
    c.next_token,
    c.document,
    c.metadata,
    c.corpus_id,
    e.position_id,
    c.index
FROM event AS e
INNER JOIN token_context((SELECT list(i.position_id) FROM event AS i)) AS c ON e.position_id = c.position_id
INNER JOIN token AS w ON e.final_token_id = w.token_id
INNER JOIN token AS f ON e.former_token_id = f.token_id
ORDER BY e.final_prob_after - e.final_prob_before DESC, e.position_id, e.layer;

-- title:  Last-layer predictions that neither the residual nor the FFN makes, to be judged by a person
-- source: Geva et al. 2021, section 5.2: 66 of 100 compositions far in meaning from the residual's token, 34 near
-- grain:  position_id
-- param:  projection (text, 'raw'): how ffn_out is read: raw (E·z), as the values are and as in the paper, or final_norm (the logit lens)
-- param:  n (integer, 100): how many, drawn by a hash of position_id
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: text_before: at most 80 characters that the model had read before the token
-- column: token: characters of the token where the prefix ends
-- column: residual_token: top token at resid_mid of the last layer, by the logit lens
-- column: ffn_token: top token at its ffn_out, by that projection
-- column: output_token: top token at its resid_post, by the logit lens: the model's prediction
-- column: next_token: the corpus token that follows; null where the document ends
-- column: document: name of the document
-- column: corpus_id: the corpus it lies in
-- column: position_id: the token occurrence
-- column: index: place in the sequence, from 0
-- chart:  tokens(token, index)
CREATE OR REPLACE MACRO geva2021_last_layer(projection := 'raw', n := 100, corpus := NULL) AS TABLE
WITH
drawn AS MATERIALIZED (
    SELECT
        c.*,
        if(projection = 'raw', c.raw_ffn_token_id, c.ffn_token_id) AS y_token_id
    FROM prediction_change AS c
    INNER JOIN traced_position AS t ON c.position_id = t.position_id
    CROSS JOIN model AS m
    WHERE
        if(projection = 'raw', c.raw_change, c.change) = 'composition' AND c.layer = m.n_layers - 1
        AND t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
    ORDER BY md5(CAST(c.position_id AS VARCHAR))
    LIMIT n
)

SELECT
    c.text_before,
    c.token,
    r.text AS residual_token,
    f.text AS ffn_token,
    o.text AS output_token,
    c.next_token,
    c.document,
    c.corpus_id,
    d.position_id,
    c.index
FROM drawn AS d
INNER JOIN token_context((SELECT list(i.position_id) FROM drawn AS i)) AS c ON d.position_id = c.position_id
INNER JOIN token AS r ON d.residual_token_id = r.token_id
INNER JOIN token AS f ON d.y_token_id = f.token_id
INNER JOIN token AS o ON d.output_token_id = o.token_id
ORDER BY d.position_id;

-- title:  Traced positions whose residual state points the same way
-- source: cosine at the same layer and site
-- grain:  rank
-- param:  position_id (bigint): a traced position_id
-- param:  layer (integer): transformer block, from 0
-- param:  site (text, 'resid_post'): one of resid_pre, resid_mid, resid_post; attn_out or ffn_out where the trace kept them
-- param:  n (integer, 25): how many
-- column: rank: from 1, by falling cosine
-- column: cosine: of the two states, in [-1, 1]
-- column: text_before: at most 80 characters that the model had read before the token
-- column: token: characters of the token there
-- column: final_token: the model's final prediction there
-- column: next_token: the corpus token that follows; null where the document ends
-- column: document: name of the document
-- column: metadata: what the corpus says of the document, JSON
-- column: corpus_id: the corpus it lies in
-- column: position_id: the token occurrence
-- column: index: place in the sequence, from 0
-- chart:  tokens(token, cosine)
--
-- At index 0 most models have one huge state that all sequences share: expect those positions to be near each other.
CREATE OR REPLACE MACRO nearest_states(position_id, layer, site := 'resid_post', n := 25) AS TABLE
WITH
nearest AS MATERIALIZED (
    SELECT
        v.position_id,
        array_cosine_similarity(v.vector, o.vector) AS cosine
    FROM stream_state AS v
    CROSS JOIN stream_state AS o
    WHERE
        v.layer = layer
        AND v.site = site
        AND o.layer = layer
        AND o.site = site
        AND o.position_id = position_id
        AND v.position_id <> position_id
        AND NOT isnan(array_cosine_similarity(v.vector, o.vector))
    ORDER BY cosine DESC, v.position_id
    LIMIT n
)

SELECT
    row_number() OVER (ORDER BY v.cosine DESC, v.position_id) AS rank,
    v.cosine,
    c.text_before,
    c.token,
    k.text AS final_token,
    c.next_token,
    c.document,
    c.metadata,
    c.corpus_id,
    v.position_id,
    c.index
FROM nearest AS v
INNER JOIN token_context((SELECT list(i.position_id) FROM nearest AS i)) AS c ON v.position_id = c.position_id
INNER JOIN trace AS t ON v.position_id = t.position_id
INNER JOIN token AS k ON t.final_token_id = k.token_id
ORDER BY rank;

-- title:  Traced predictions that a head raised most
-- source: Elhage et al. 2021: direct logit attribution by head
-- grain:  rank
-- param:  layer (integer): transformer block, from 0
-- param:  head (integer): attention head of the layer, from 0
-- param:  n (integer, 25): how many
-- param:  corpus (integer, NULL): one corpus_id; NULL ranks over all corpora
-- column: rank: from 1, by falling centred_logit; ties go to the smaller position_id
-- column: centred_logit: what it adds to the prediction's logit above what it adds to all logits on average, logits: what the softmax sees
-- column: text_before: at most 80 characters that the model had read before the token
-- column: token: characters of the token where the head wrote
-- column: text_after: at most 40 characters that the model had not read
-- column: final_token: the model's prediction
-- column: next_token: the corpus token that follows; null where the document ends
-- column: source: the token whose value moves most in the head
-- column: source_weight: its attention weight, in [0, 1]
-- column: source_index: its place in the sequence, from 0
-- column: document: name of the document
-- column: metadata: what the corpus says of the document, JSON
-- column: corpus_id: the corpus it lies in
-- column: position_id: the token occurrence
-- column: index: place in the sequence, from 0
-- chart:  tokens(token, centred_logit)
CREATE OR REPLACE MACRO head_positions(layer, head, n := 25, corpus := NULL) AS TABLE
WITH
hit AS MATERIALIZED (
    SELECT
        row_number() OVER (ORDER BY c.final_logit - c.mean_logit DESC, c.position_id) AS rank,
        c.position_id,
        c.final_logit - c.mean_logit AS centred_logit,
        p.final_token_id
    FROM contribution AS c
    INNER JOIN traced_position AS p ON c.position_id = p.position_id
    WHERE c.kind = 'head' AND c.layer = layer AND c.head = head AND (corpus IS NULL OR p.corpus_id = corpus)
    QUALIFY rank <= n
)

SELECT
    h.rank,
    h.centred_logit,
    c.text_before,
    c.token,
    c.text_after,
    w.text AS final_token,
    c.next_token,
    k.text AS source,
    s.weight AS source_weight,
    s.source_index,
    c.document,
    c.metadata,
    c.corpus_id,
    h.position_id,
    c.index
FROM hit AS h
INNER JOIN token_context((SELECT list(i.position_id) FROM hit AS i)) AS c ON h.position_id = c.position_id
INNER JOIN position AS here ON h.position_id = here.position_id
INNER JOIN token AS w ON h.final_token_id = w.token_id
LEFT JOIN attention AS s ON h.position_id = s.position_id AND s.layer = layer AND s.head = head AND s.rank = 1
LEFT JOIN position AS p ON here.sequence_id = p.sequence_id AND s.source_index = p.index
LEFT JOIN token AS k ON p.token_id = k.token_id
ORDER BY h.rank;

-- title:  Texts at which a key's coefficient is smallest (most negative)
-- source: Geva et al. 2021, section 3
-- grain:  rank
-- param:  layer (integer): transformer block, from 0
-- param:  neuron (integer): FFN hidden unit of the layer, from 0
-- param:  n (integer, 25): how many, at most as many as ingest kept per key
-- param:  corpus (integer, NULL): one corpus_id; NULL ranks over all corpora
-- column: rank: from 1, by rising coefficient; ties go to the smaller position_id
-- column: coefficient: m_i, signed, no unit
-- column: text_before: at most 80 characters that the model had read before the token
-- column: token: characters of the token where the coefficient was read
-- column: text_after: at most 40 characters that the model had not read
-- column: next_token: the corpus token that follows; null where the document ends
-- column: document: name of the document
-- column: metadata: what the corpus says of the document, JSON
-- column: corpus_id: the corpus it lies in
-- column: position_id: the token occurrence
-- column: index: place in the sequence, from 0
-- chart:  tokens(token, coefficient)
--
-- Gated and GELU keys write their value with a negative sign here, which promotes what the value suppresses.
-- The rank filter stands in for a limit because it is pushed down to the sorted table.
-- Beyond what one corpus kept, the ranking over several would have holes: the last filter stops there.
CREATE OR REPLACE MACRO bottom_triggers(layer, neuron, n := 25, corpus := NULL) AS TABLE
WITH
hit AS MATERIALIZED (
    SELECT
        t.corpus_id,
        t.rank AS corpus_rank,
        row_number() OVER (ORDER BY t.coefficient ASC, t.position_id) AS overall_rank,
        t.coefficient,
        t.position_id
    FROM trigger AS t
    WHERE
        t.layer = layer
        AND t.neuron = neuron
        AND t.tail = 'min'
        AND t.rank <= n
        AND (corpus IS NULL OR t.corpus_id = corpus)
)

SELECT
    h.overall_rank AS rank,
    h.coefficient,
    c.text_before,
    c.token,
    c.text_after,
    c.next_token,
    c.document,
    c.metadata,
    c.corpus_id,
    h.position_id,
    c.index
FROM hit AS h
INNER JOIN token_context((SELECT list(i.position_id) FROM hit AS i)) AS c ON h.position_id = c.position_id
WHERE h.overall_rank <= least(n, (SELECT max(i.corpus_rank) FROM hit AS i))
ORDER BY h.overall_rank;

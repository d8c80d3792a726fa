-- title:  Texts at which a key's coefficient is smallest (most negative)
-- source: Geva et al. 2021, section 3
-- grain:  rank
-- param:  layer (integer): transformer block, from 0
-- param:  neuron (integer): FFN hidden unit of the layer, from 0
-- param:  n (integer, 25): how many, at most as many as ingest kept per key
-- param:  corpus (integer, NULL): corpus_id; NULL ranks over all corpora
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

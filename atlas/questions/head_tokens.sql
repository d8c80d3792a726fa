-- title:  What the directions of a head read and write, or look for
-- source: Elhage et al. 2021, OV and QK circuits; Millidge and Black 2022, singular vectors in the vocabulary
-- grain:  direction_rank, side
-- param:  layer (integer): transformer block, from 0
-- param:  head (integer): attention head of the layer, from 0
-- param:  circuit (text, 'ov'): ov for what it reads and writes, qk for what asks and what is looked at
-- column: direction_rank: from 1, by falling singular value
-- column: side: read or write of ov; query or key of qk
-- column: top: ten tokens of the largest scores, largest first; the other side's top goes with them
-- column: bottom: ten tokens of the most negative scores, most negative first; the other side's bottom goes with them
-- column: top_scores: their scores, less the vocabulary's mean
-- column: bottom_scores: likewise
-- column: sigma: singular value, norms folded in
-- column: share: of the circuit's σ², in [0, 1]
-- column: gap: to the next singular value, over this one, in [0, 1]; under 0.05 only the span of both means anything
-- chart:  bar(direction_rank, share)
--
-- A head that finds the query's top on a token with the key's top looks there more; one that reads the top writes the top.
CREATE OR REPLACE MACRO head_tokens(layer, head, circuit := 'ov') AS TABLE
SELECT
    d.direction_rank,
    t.side,
    list(k.text ORDER BY t.rank) FILTER (t.tail = 'max') AS top,
    list(k.text ORDER BY t.rank) FILTER (t.tail = 'min') AS bottom,
    list(t.score ORDER BY t.rank) FILTER (t.tail = 'max') AS top_scores,
    list(t.score ORDER BY t.rank) FILTER (t.tail = 'min') AS bottom_scores,
    d.sigma,
    d.share,
    d.gap
FROM head_direction AS d
INNER JOIN head_direction_token AS t
    ON
        d.layer = t.layer
        AND d.head = t.head
        AND d.circuit = t.circuit
        AND d.direction_rank = t.direction_rank
INNER JOIN token AS k ON t.token_id = k.token_id
WHERE d.layer = layer AND d.head = head AND d.circuit = circuit
GROUP BY d.direction_rank, t.side, d.sigma, d.share, d.gap
ORDER BY d.direction_rank, CASE t.side WHEN 'read' THEN 1 WHEN 'query' THEN 1 ELSE 2 END;

-- title:  Which later heads read a head
-- source: Elhage et al. 2021, composition, as its erratum of 2023 corrects it
-- grain:  layer, head
-- param:  layer (integer): transformer block of the earlier head, from 0
-- param:  head (integer): the earlier head, from 0
-- param:  kind (text, 'k'): through what the later head reads: k (its keys), q (its queries) or v (its values)
-- param:  n (integer, 25): how many heads
-- column: rank: from 1, by falling score
-- column: layer: layer of the later head, from 0
-- column: head: the later head, from 0
-- column: excess: score less what chance gives, 1/√d_model
-- column: score: ‖reading·writing‖ / (‖reading‖·‖writing‖), Frobenius, without rotation, in [0, 1]
-- column: score_averaged: the same with RoPE averaged over the distances of table composition; null for v and without RoPE
-- column: matching: 1: the later head's keys, read through the earlier head, look for the query's own token, in [-1, 1]; k alone; null for weak pairs
-- column: copying_effective: of the later head, in [-1, 1]; 1: it copies
-- chart:  bar(rank, excess)
CREATE OR REPLACE MACRO composition_from(layer, head, kind := 'k', n := 25) AS TABLE
SELECT
    row_number() OVER (ORDER BY c.score DESC, c.layer, c.head) AS rank,
    c.layer,
    c.head,
    c.score - 1 / sqrt(m.d_model) AS excess,
    c.score,
    c.score_averaged,
    c.matching,
    h.copying_effective
FROM composition AS c
INNER JOIN head AS h ON c.layer = h.layer AND c.head = h.head
CROSS JOIN model AS m
WHERE c.from_layer = layer AND c.from_head = head AND c.kind = kind
ORDER BY rank
LIMIT n;

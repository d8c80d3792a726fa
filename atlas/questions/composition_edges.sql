-- title:  Pairs of heads that compose more than chance
-- source: Elhage et al. 2021, composition, as its erratum of 2023 corrects it
-- grain:  layer, head, from_layer, from_head
-- param:  kind (text, 'k'): through what the later head reads: k (its keys), q (its queries) or v (its values)
-- param:  min_excess (double, 0.03): least score above chance
-- column: layer: layer of the later head, from 0
-- column: head: the later head, from 0
-- column: from_layer: layer of the earlier head, from 0
-- column: from_head: the earlier head, from 0
-- column: excess: score less what chance gives, 1/√d_model
-- column: rank: of the score among all earlier heads that the later one reads in this kind, from 1
-- column: matching: 1: the later head's keys, read through the earlier head, look for the query's own token, in [-1, 1]; k alone; null for weak pairs
-- chart:  bar(layer, excess)
CREATE OR REPLACE MACRO composition_edges(kind := 'k', min_excess := 0.03) AS TABLE
WITH
ranked AS (
    SELECT
        c.layer,
        c.head,
        c.from_layer,
        c.from_head,
        c.score - 1 / sqrt(m.d_model) AS excess,
        row_number() OVER (PARTITION BY c.layer, c.head ORDER BY c.score DESC, c.from_layer, c.from_head) AS rank,
        c.matching
    FROM composition AS c
    CROSS JOIN model AS m
    WHERE c.kind = kind
)

SELECT r.*
FROM ranked AS r
WHERE r.excess >= min_excess
ORDER BY r.excess DESC, r.layer, r.head, r.from_layer, r.from_head;

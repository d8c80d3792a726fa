-- title:  How much the heads of each layer read those of the layers before it
-- source: Elhage et al. 2021, composition scores of a two-layer model, as its erratum of 2023 corrects them
-- grain:  kind, layer, from_layer
-- column: kind: through what the later head reads: k (its keys), q (its queries) or v (its values)
-- column: layer: layer of the later heads, from 0
-- column: from_layer: layer of the earlier heads, from 0
-- column: n_pairs: pairs of heads of the two layers
-- column: median_excess: median of their scores above what chance gives, 1/√d_model
-- column: max_excess: largest of them
-- column: head: the later head of the largest
-- column: from_head: the earlier head of the largest
-- chart:  bar(layer, max_excess)
CREATE OR REPLACE MACRO elhage2021_composition() AS TABLE
SELECT
    c.kind,
    c.layer,
    c.from_layer,
    count(*) AS n_pairs,
    median(c.score) - 1 / sqrt(any_value(m.d_model)) AS median_excess,
    max(c.score) - 1 / sqrt(any_value(m.d_model)) AS max_excess,
    arg_max(c.head, (c.score, -c.head, -c.from_head)) AS head,
    arg_max(c.from_head, (c.score, -c.head, -c.from_head)) AS from_head
FROM composition AS c
CROSS JOIN model AS m
GROUP BY c.kind, c.layer, c.from_layer
ORDER BY c.kind, c.layer, c.from_layer;

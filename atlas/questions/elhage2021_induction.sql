-- title:  Which heads are induction heads: what their circuits could do, and what they do on random tokens that repeat
-- source: Elhage et al. 2021, "how induction heads work" and "checking the mechanistic theory": eigenvalues of both circuits of every head
-- grain:  layer, head
-- column: layer: transformer block, from 0
-- column: head: attention head of the layer, from 0
-- column: induction: mean attention weight on what followed earlier copies of the present token, on random tokens read twice; null without a head_probe
-- column: induction_uniform: the same for weights that are equal on all that a position sees
-- column: copying_effective: of the OV circuit, Σλ/Σ|λ| in [-1, 1]; 1: it raises the token that it looks at
-- column: matching: of the QK circuit through the earlier head, Σλ/Σ|λ| in [-1, 1]; 1: it looks for the query's own token; null in layer 0 and for weak pairs
-- column: from_layer: layer of the earlier head that its keys read most (K-composition), from 0; null in layer 0
-- column: from_head: that head, from 0
-- column: excess: its K-composition score above chance, 1/√d_model
-- column: from_previous: mean weight of that head on the position before, on random tokens read twice
-- chart:  bar(head, induction)
CREATE OR REPLACE MACRO elhage2021_induction() AS TABLE
WITH
read_most AS (
    SELECT c.*
    FROM composition AS c
    WHERE c.kind = 'k'
    QUALIFY row_number() OVER (PARTITION BY c.layer, c.head ORDER BY c.score DESC, c.from_layer, c.from_head) = 1
),

probed AS (
    SELECT p.*
    FROM head_probe AS p
    WHERE p.probe = 'repeat'
)

SELECT
    h.layer,
    h.head,
    p.induction,
    p.induction_uniform,
    h.copying_effective,
    r.matching,
    r.from_layer,
    r.from_head,
    r.score - 1 / sqrt(m.d_model) AS excess,
    f.previous AS from_previous
FROM head AS h
CROSS JOIN model AS m
LEFT JOIN probed AS p ON h.layer = p.layer AND h.head = p.head
LEFT JOIN read_most AS r ON h.layer = r.layer AND h.head = r.head
LEFT JOIN probed AS f ON r.from_layer = f.layer AND r.from_head = f.head
ORDER BY p.induction DESC NULLS LAST, h.layer, h.head;

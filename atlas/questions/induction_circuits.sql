-- title:  Pairs of heads whose weights make an induction circuit
-- source: Elhage et al. 2021, induction heads: K-composition, its erratum of 2023, and the eigenvalues of the QK circuit through the earlier head
-- grain:  layer, head, from_layer, from_head
-- param:  n (integer, 25): how many pairs
-- column: layer: layer of the head that would look for what followed its token, from 0
-- column: head: that head, from 0
-- column: from_layer: layer of the head that would write each token's predecessor, from 0
-- column: from_head: that head, from 0
-- column: excess: of the K-composition score above chance, 1/√d_model
-- column: rank: of the score among all earlier heads that the later one reads by its keys, from 1
-- column: matching: 1: what the earlier head copies into the keys is looked for by the query's own token, in [-1, 1]
-- column: copying_effective: of the later head, in [-1, 1]; 1: it raises the token that it looks at, -1: it suppresses it
-- chart:  bar(layer, excess)
--
-- By excess, of pairs whose matching is above one half. The weights tell what the pair could do: that the earlier head looks one position back, and that the
-- later one looks where its token stood before, only a text shows.
CREATE OR REPLACE MACRO induction_circuits(n := 25) AS TABLE
SELECT
    e.layer,
    e.head,
    e.from_layer,
    e.from_head,
    e.excess,
    e.rank,
    e.matching,
    h.copying_effective
FROM composition_edges(kind := 'k', min_excess := 0) AS e
INNER JOIN head AS h ON e.layer = h.layer AND e.head = h.head
WHERE e.matching > 0.5
ORDER BY e.excess DESC, e.layer, e.head, e.from_layer, e.from_head
LIMIT n;

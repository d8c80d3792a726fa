-- title:  Whose prediction a layer's output takes: the residual's, the FFN's, both or neither
-- source: Geva et al. 2021, section 5.2 and figure 11
-- grain:  layer
-- n:      n_positions
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora together
-- column: layer: transformer block, from 0
-- column: agreement: share of traced positions where resid_mid, ffn_out and resid_post lead with one token, in [0, 1]
-- column: residual: share where resid_post keeps the top token of resid_mid alone
-- column: ffn: share where it takes that of ffn_out alone
-- column: composition: share where it takes neither
-- column: n_positions: traced positions counted
-- chart:  area(layer, composition)
--
-- Positions at index 0, the first of a sequence, count too: the states of most models are huge there.
-- The four shares sum to 1.
CREATE OR REPLACE MACRO geva2021_fig11(corpus := NULL) AS TABLE
SELECT
    c.layer,
    count(*) FILTER (c.change = 'agreement') / count(*) AS agreement,
    count(*) FILTER (c.change = 'residual') / count(*) AS residual,
    count(*) FILTER (c.change = 'ffn') / count(*) AS ffn,
    count(*) FILTER (c.change = 'composition') / count(*) AS composition,
    count(*) AS n_positions
FROM prediction_change AS c
INNER JOIN traced_position AS t ON c.position_id = t.position_id
WHERE corpus IS NULL OR t.corpus_id = corpus
GROUP BY c.layer
ORDER BY c.layer;

-- title:  How far back a head looks
-- source: Elhage et al. 2021; table attention_distance
-- grain:  bin
-- n:      n_destinations
-- param:  layer (integer): transformer block, from 0
-- param:  head (integer): attention head of the layer, from 0
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora together
-- column: bin: from 0, ascending distances
-- column: first_distance: the least of its distances, in tokens; 0 is the position itself
-- column: last_distance: the largest of them
-- column: share: share of the attention weight on sources so far back, in [0, 1]
-- column: uniform_share: the same share for weights that are equal on all that a position sees
-- column: n_destinations: positions whose attention was summed: every one but those at index 0
-- chart:  bar(bin, share)
CREATE OR REPLACE MACRO attention_distance_profile(layer, head, corpus := NULL) AS TABLE
SELECT
    d.bin,
    CASE WHEN d.bin < 2 THEN d.bin ELSE CAST(2 ** (d.bin - 2) AS INTEGER) + 1 END AS first_distance,
    CASE WHEN d.bin < 2 THEN d.bin ELSE CAST(2 ** (d.bin - 1) AS INTEGER) END AS last_distance,
    sum(d.weight) / nullif(sum(d.n), 0) AS share,
    sum(d.uniform) / nullif(sum(d.n), 0) AS uniform_share,
    CAST(sum(d.n) AS BIGINT) AS n_destinations
FROM attention_distance AS d
WHERE d.layer = layer AND d.head = head AND (corpus IS NULL OR d.corpus_id = corpus)
GROUP BY d.bin
ORDER BY d.bin;

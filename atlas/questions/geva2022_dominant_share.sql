-- title:  How much of a layer's summed sub-update length its dominant few carry
-- source: Geva et al. 2022, section 5.1: about 0.24% of the values carry 5-20% of the sum
-- grain:  layer
-- n:      n_positions
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: layer: transformer block, from 0
-- column: mean_share: share of the dominant sub-updates in the sum of |m|·‖v‖, mean over positions, in [0, 1]
-- column: min_share: smallest share
-- column: max_share: largest share
-- column: dominant_of_values: dominant sub-updates / d_ffn, what equal lengths would give
-- column: n_positions: traced positions averaged over
-- column: n_first: of them at index 0, the first of a sequence, where the states of most models are huge
-- column: mean_share_without_first: the same share without those at index 0
-- chart:  line(layer, mean_share)
--
-- Left out: positions where every coefficient of the layer is 0.
CREATE OR REPLACE MACRO geva2022_dominant_share(corpus := NULL) AS TABLE
WITH
dominant AS (
    SELECT max(u.rank) AS n_dominant
    FROM sub_update AS u
    WHERE u.selection = 'dominant'
)

SELECT
    a.layer,
    avg(a.sub_update_norm_dominant / a.sub_update_norm_total) AS mean_share,
    min(a.sub_update_norm_dominant / a.sub_update_norm_total) AS min_share,
    max(a.sub_update_norm_dominant / a.sub_update_norm_total) AS max_share,
    d.n_dominant / m.d_ffn AS dominant_of_values,
    count(*) AS n_positions,
    count(*) FILTER (t.is_first) AS n_first,
    avg(a.sub_update_norm_dominant / a.sub_update_norm_total) FILTER (NOT t.is_first) AS mean_share_without_first
FROM layer_activity AS a
INNER JOIN traced_position AS t ON a.position_id = t.position_id
CROSS JOIN model AS m
CROSS JOIN dominant AS d
WHERE
    a.sub_update_norm_total > 0
    AND t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
GROUP BY a.layer, m.d_ffn, d.n_dominant
ORDER BY a.layer;

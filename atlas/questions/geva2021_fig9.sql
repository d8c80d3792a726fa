-- title:  Share of positions whose final prediction already leads before the FFN
-- source: Geva et al. 2021, section 5.2 and figure 9
-- grain:  layer
-- n:      n_positions
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: layer: transformer block, from 0
-- column: final_on_top_share: share of traced positions whose top token at resid_mid by the logit lens is the model's prediction, in [0, 1]
-- column: n_positions: traced positions counted
-- column: n_first: of them at index 0, the first of a sequence, where the states of most models are huge
-- column: final_on_top_share_without_first: the same share without those at index 0
-- chart:  line(layer, final_on_top_share)
CREATE OR REPLACE MACRO geva2021_fig9(corpus := NULL) AS TABLE
SELECT
    l.layer,
    avg(if(l.top_token_id = t.final_token_id, 1, 0)) AS final_on_top_share,
    count(*) AS n_positions,
    count(*) FILTER (t.is_first) AS n_first,
    avg(if(l.top_token_id = t.final_token_id, 1, 0)) FILTER (NOT t.is_first) AS final_on_top_share_without_first
FROM logit_lens AS l
INNER JOIN traced_position AS t ON l.position_id = t.position_id
WHERE
    l.site = 'resid_mid'
    AND t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
GROUP BY l.layer
ORDER BY l.layer;

-- title:  Whose prediction a layer's output takes: the residual's, the FFN's, both or neither
-- source: Geva et al. 2021, section 5.2 and figure 11
-- grain:  layer
-- n:      n_positions
-- param:  projection (text, 'raw'): how ffn_out is read: raw (E·z), as the values are and as in the paper, or final_norm (the logit lens)
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: layer: transformer block, from 0
-- column: projection: how ffn_out is read; resid_mid and resid_post, which are states, by the logit lens
-- column: agreement: share of traced positions where resid_mid, ffn_out and resid_post lead with one token, in [0, 1]
-- column: residual: share where resid_post keeps the top token of resid_mid alone
-- column: ffn: share where it takes that of ffn_out alone
-- column: composition: share where it takes neither
-- column: n_positions: traced positions counted
-- chart:  area(layer, composition)
--
-- Positions at index 0, the first of a sequence, count too: the states of most models are huge there.
-- The four shares sum to 1. Positions whose trace is older than raw_ffn_token_id count under final_norm alone.
CREATE OR REPLACE MACRO geva2021_fig11(projection := 'raw', corpus := NULL) AS TABLE
WITH
changed AS (
    SELECT
        c.position_id,
        c.layer,
        if(projection = 'raw', c.raw_change, c.change) AS change
    FROM prediction_change AS c
)

SELECT
    c.layer,
    CAST(projection AS VARCHAR) AS projection,
    count(*) FILTER (c.change = 'agreement') / count(*) AS agreement,
    count(*) FILTER (c.change = 'residual') / count(*) AS residual,
    count(*) FILTER (c.change = 'ffn') / count(*) AS ffn,
    count(*) FILTER (c.change = 'composition') / count(*) AS composition,
    count(*) AS n_positions
FROM changed AS c
INNER JOIN traced_position AS t ON c.position_id = t.position_id
WHERE
    c.change IS NOT NULL
    AND t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
GROUP BY c.layer
ORDER BY c.layer;

-- title:  How sub-updates score the current top candidate, layer by layer
-- source: Geva et al. 2022, section 5.1 and figure 3
-- grain:  layer, selection
-- n:      n_positions
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: layer: transformer block, from 0
-- column: selection: dominant: the 10 sub-updates largest by |m|·‖v‖; random: 10 others of the same position and layer
-- column: mean_score: mean score m·(e_w·v) of the 10 for the top token at resid_mid, averaged over positions, raw
-- column: max_score: largest of the 10, averaged over positions
-- column: min_score: smallest of the 10, averaged over positions
-- column: mean_frozen_score: the same of what they add to the token's logit, the final norm's scale held; null where the trace is older than the column
-- column: max_frozen_score: largest of the 10, averaged over positions, logits
-- column: min_frozen_score: smallest of the 10, averaged over positions, logits
-- column: n_positions: traced positions averaged over
-- chart:  line(layer, max_score)
--
-- Positions at index 0, the first of a sequence, count too: the states of most models are huge there.
-- Positive promotes, negative demotes. A frozen-norm score multiplies the token's unnormalised probability by its exponential; so does a raw one
-- where no final norm follows, as in the paper's model.
CREATE OR REPLACE MACRO geva2022_fig3(corpus := NULL) AS TABLE
WITH
by_position AS (
    SELECT
        u.layer,
        u.selection,
        u.position_id,
        avg(u.candidate_score) AS mean_score,
        max(u.candidate_score) AS max_score,
        min(u.candidate_score) AS min_score,
        avg(u.candidate_frozen_score) AS mean_frozen_score,
        max(u.candidate_frozen_score) AS max_frozen_score,
        min(u.candidate_frozen_score) AS min_frozen_score
    FROM sub_update AS u
    INNER JOIN traced_position AS t ON u.position_id = t.position_id
    WHERE t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
    GROUP BY u.layer, u.selection, u.position_id
)

SELECT
    b.layer,
    b.selection,
    avg(b.mean_score) AS mean_score,
    avg(b.max_score) AS max_score,
    avg(b.min_score) AS min_score,
    avg(b.mean_frozen_score) AS mean_frozen_score,
    avg(b.max_frozen_score) AS max_frozen_score,
    avg(b.min_frozen_score) AS min_frozen_score,
    count(*) AS n_positions
FROM by_position AS b
GROUP BY b.layer, b.selection
ORDER BY b.layer, b.selection;

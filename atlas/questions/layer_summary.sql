-- title:  Each layer in one row: weights, activity, and what its FFN does to the prediction
-- source: Geva et al. 2021, figures 7, 9, 10, 11; Geva et al. 2022, section 5
-- grain:  layer
-- n:      n_traced
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora together
-- column: layer: transformer block, from 0
-- column: n_neurons: FFN hidden units
-- column: mean_value_norm: mean ‖v‖, in residual-stream units
-- column: mean_key_value_cosine: mean cosine of key (up key) and value, in [-1, 1]
-- column: n_swept: positions that the two columns after it are over; null without a sweep
-- column: active_share: share of coefficients over 0, all neurons and positions that the sweep counts, in [0, 1]
-- column: coefficient_rms: size of coefficients: root of their mean square, all neurons and positions that the sweep counts
-- column: n_traced: traced positions; null without a trace, like all that follow
-- column: n_first: of them at index 0, the first of a sequence, where the states of most models are huge
-- column: final_on_top_before: share of them whose final prediction leads at resid_mid by the logit lens, in [0, 1]
-- column: mean_final_prob_before: mean probability of the final prediction at resid_mid, by the logit lens
-- column: agreement: share where resid_mid and resid_post, by the logit lens, and ffn_out, raw (E·z), lead with one token
-- column: residual: share where resid_post keeps the top token of resid_mid alone
-- column: ffn: share where it takes that of ffn_out alone
-- column: composition: share where it takes neither
-- column: dominant_share: mean share of the 10 dominant sub-updates in the summed norm, in [0, 1]; without positions where every coefficient is 0
-- column: dominant_share_without_first: the same share without positions at index 0
-- column: n_saturations: saturation events
-- column: n_eliminations: elimination events, of each position the one where its candidate falls furthest
-- column: n_input_eliminations: of them those whose candidate is the very token that was read there
-- column: n_other_eliminations: the rest, n_eliminations without the input token
-- chart:  line(layer, final_on_top_before)
--
-- Index 0 is the first position of a sequence, where the states of most models are huge. Statistics of coefficients are over
-- the positions that the sweep counts, by its own rule without index 0 (view swept_corpus); of traced positions n_first says how many it is.
-- The four shares are those of geva2021_fig11, which can read ffn_out by the logit lens too. Traces older than raw_ffn_token_id have none.
-- active_share is over the positions that the sweep counts, that of geva2021_fig7 over the traced ones.
CREATE OR REPLACE MACRO layer_summary(corpus := NULL) AS TABLE
WITH
weight AS (
    SELECT
        n.layer,
        count(*) AS n_neurons,
        avg(n.value_norm) AS mean_value_norm,
        avg(n.key_value_cosine) AS mean_key_value_cosine
    FROM neuron AS n
    GROUP BY n.layer
),

activity AS (
    SELECT
        s.layer,
        CAST(sum(s.n_positions) / count(DISTINCT s.neuron) AS BIGINT) AS n_swept,
        sum(s.n_active) / sum(s.n_positions) AS active_share,
        sqrt(sum(s.n_positions * (s.std * s.std + s.mean * s.mean)) / sum(s.n_positions)) AS coefficient_rms
    FROM neuron_statistics AS s
    WHERE corpus IS NULL OR s.corpus_id = corpus
    GROUP BY s.layer
),

traced AS MATERIALIZED (
    SELECT
        t.position_id,
        t.final_token_id,
        t.is_first
    FROM traced_position AS t
    WHERE corpus IS NULL OR t.corpus_id = corpus
),

prediction AS (
    SELECT
        l.layer,
        avg(if(l.top_token_id = t.final_token_id, 1, 0)) AS final_on_top_before,
        avg(l.final_token_prob) AS mean_final_prob_before
    FROM logit_lens AS l
    INNER JOIN traced AS t ON l.position_id = t.position_id
    WHERE l.site = 'resid_mid'
    GROUP BY l.layer
),

change AS (
    SELECT
        c.layer,
        count(*) AS n_traced,
        count(*) FILTER (t.is_first) AS n_first,
        count(*) FILTER (c.raw_change = 'agreement') / nullif(count(c.raw_change), 0) AS agreement,
        count(*) FILTER (c.raw_change = 'residual') / nullif(count(c.raw_change), 0) AS residual,
        count(*) FILTER (c.raw_change = 'ffn') / nullif(count(c.raw_change), 0) AS ffn,
        count(*) FILTER (c.raw_change = 'composition') / nullif(count(c.raw_change), 0) AS composition
    FROM prediction_change AS c
    INNER JOIN traced AS t ON c.position_id = t.position_id
    GROUP BY c.layer
),

dominance AS (
    SELECT
        a.layer,
        avg(a.sub_update_norm_dominant / a.sub_update_norm_total) AS dominant_share,
        avg(a.sub_update_norm_dominant / a.sub_update_norm_total) FILTER (NOT t.is_first) AS dominant_share_without_first
    FROM layer_activity AS a
    INNER JOIN traced AS t ON a.position_id = t.position_id
    WHERE a.sub_update_norm_total > 0
    GROUP BY a.layer
),

saturated AS (
    SELECT
        e.layer,
        count(*) AS n_saturations
    FROM saturation AS e
    INNER JOIN traced AS t ON e.position_id = t.position_id
    GROUP BY e.layer
),

eliminated AS (
    SELECT
        e.layer,
        count(*) AS n_eliminations,
        count(*) FILTER (e.is_input_token) AS n_input_eliminations
    FROM elimination AS e
    INNER JOIN traced AS t ON e.position_id = t.position_id
    WHERE e.is_largest_fall
    GROUP BY e.layer
)

SELECT
    w.layer,
    w.n_neurons,
    w.mean_value_norm,
    w.mean_key_value_cosine,
    a.n_swept,
    a.active_share,
    a.coefficient_rms,
    c.n_traced,
    c.n_first,
    p.final_on_top_before,
    p.mean_final_prob_before,
    c.agreement,
    c.residual,
    c.ffn,
    c.composition,
    d.dominant_share,
    d.dominant_share_without_first,
    if(c.n_traced IS NULL, NULL, coalesce(s.n_saturations, 0)) AS n_saturations,
    if(c.n_traced IS NULL, NULL, coalesce(e.n_eliminations, 0)) AS n_eliminations,
    if(c.n_traced IS NULL, NULL, coalesce(e.n_input_eliminations, 0)) AS n_input_eliminations,
    if(c.n_traced IS NULL, NULL, coalesce(e.n_eliminations - e.n_input_eliminations, 0)) AS n_other_eliminations
FROM weight AS w
LEFT JOIN activity AS a ON w.layer = a.layer
LEFT JOIN prediction AS p ON w.layer = p.layer
LEFT JOIN change AS c ON w.layer = c.layer
LEFT JOIN dominance AS d ON w.layer = d.layer
LEFT JOIN saturated AS s ON w.layer = s.layer
LEFT JOIN eliminated AS e ON w.layer = e.layer
ORDER BY w.layer;

-- title:  Where does putting a state back bring answers back on average, by the token's role?
-- source: Meng et al. 2022, section 2 (average indirect effects)
-- grain:  site, window_layers, role, layer
-- n:      n_prompts
-- param:  experiment (integer): experiment_id of a tracing; experiment_summary() lists them
-- column: site: which states were put back
-- column: window_layers: layers put back together
-- column: role: what the token is to its prompt
-- column: layer: transformer block, from 0
-- column: n_prompts: prompts that have a token of the role; of several tokens of a role in one prompt the mean counts
-- column: n_clusters: templates of these prompts; prompts of one count as one observation
-- column: effect: mean over prompts of the probability that putting the state back gives the answer, AIE, in [-1, 1]
-- column: effect_se: its standard error over prompts; null for one prompt
-- column: total_effect: mean over the same prompts of what noise takes from the probability of the answer, ATE, in [-1, 1]
-- chart:  line(layer, effect)
-- needs:  tracing
CREATE OR REPLACE MACRO experiments.indirect_effects(experiment) AS TABLE
WITH
of_prompt AS (
    SELECT
        f.site,
        f.window,
        t.role,
        f.layer,
        f.prompt_id,
        any_value(coalesce(p.cluster, 'prompt ' || p.prompt_id)) AS cluster,
        avg(f.effect) AS effect,
        avg(f.total_effect) AS total_effect
    FROM experiments.effect AS f
    INNER JOIN experiments.experiment AS e ON f.experiment_id = e.experiment_id
    INNER JOIN experiments.prompt AS p ON f.experiment_id = p.experiment_id AND f.prompt_id = p.prompt_id
    INNER JOIN experiments.prompt_token AS t ON f.experiment_id = t.experiment_id AND f.prompt_id = t.prompt_id AND f.index = t.index
    WHERE f.experiment_id = experiment AND e.kind = 'tracing'
    GROUP BY f.site, f.window, t.role, f.layer, f.prompt_id
)

SELECT
    o.site,
    o.window AS window_layers,
    o.role,
    o.layer,
    count(*) AS n_prompts,
    count(DISTINCT o.cluster) AS n_clusters,
    avg(o.effect) AS effect,
    stddev_samp(o.effect) / sqrt(count(o.effect)) AS effect_se,
    avg(o.total_effect) AS total_effect
FROM of_prompt AS o
GROUP BY o.site, o.window, o.role, o.layer
ORDER BY o.site, o.window, o.role, o.layer;

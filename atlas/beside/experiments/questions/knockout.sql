-- title:  Which tokens must the last position read, layer by layer?
-- source: Geva et al. 2023, section 5 (attention knockout)
-- grain:  sources, window_layers, layer
-- n:      n_prompts
-- param:  experiment (integer): experiment_id of a knockout; experiment_summary() lists them
-- column: sources: what the last position could not read: subject, non_subject or last
-- column: window_layers: layers in which it could not, half-open around the layer and cut at the ends
-- column: layer: transformer block, from 0
-- column: n_prompts: prompts
-- column: n_clusters: templates of these prompts; prompts of one count as one observation
-- column: change: mean over prompts of (prob - clean prob) / clean prob of the answer; -1 where it is gone
-- column: change_se: its standard error over prompts; null for one prompt
-- chart:  line(layer, change)
-- needs:  knockout
CREATE OR REPLACE MACRO experiments.knockout(experiment) AS TABLE
SELECT
    f.sources,
    f.window AS window_layers,
    f.layer,
    count(*) AS n_prompts,
    count(DISTINCT coalesce(p.cluster, 'prompt ' || p.prompt_id)) AS n_clusters,
    avg(f.effect) AS change,
    stddev_samp(f.effect) / sqrt(count(f.effect)) AS change_se
FROM experiments.effect AS f
INNER JOIN experiments.prompt AS p ON f.experiment_id = p.experiment_id AND f.prompt_id = p.prompt_id
WHERE f.experiment_id = experiment AND f.sources IS NOT NULL
GROUP BY f.sources, f.window, f.layer
ORDER BY f.sources, f.window, f.layer;

-- title:  Which experiments are there?
-- source: this atlas
-- grain:  experiment
-- column: experiment: experiment_id, which other questions are asked with
-- column: kind: live, generation, tracing, patching, knockout, saliency or suppression
-- column: title: what whoever made it calls it
-- column: status: running while arms may be added, then finished
-- column: n_prompts: texts that the model read
-- column: n_clusters: templates of the texts; a text without one counts by itself
-- column: n_arms: arms, the base among them
-- column: author: who made it; null where they did not say
-- column: started: date and time, UTC
-- chart:  card
-- needs:  experiment
CREATE OR REPLACE MACRO experiments.experiment_summary() AS TABLE
WITH
asked AS (
    SELECT
        p.experiment_id,
        count(*) AS n_prompts,
        count(DISTINCT coalesce(p.cluster, 'prompt ' || p.prompt_id)) AS n_clusters
    FROM experiments.prompt AS p
    GROUP BY p.experiment_id
),

done AS (
    SELECT
        a.experiment_id,
        count(*) AS n_arms
    FROM experiments.arm AS a
    GROUP BY a.experiment_id
)

SELECT
    e.experiment_id AS experiment,
    e.kind,
    e.title,
    e.status,
    coalesce(p.n_prompts, 0) AS n_prompts,
    coalesce(p.n_clusters, 0) AS n_clusters,
    coalesce(a.n_arms, 0) AS n_arms,
    e.author,
    strftime(make_timestamp(epoch_us(e.started_at)), '%Y-%m-%d %H:%M') AS started
FROM experiments.experiment AS e
LEFT JOIN asked AS p ON e.experiment_id = p.experiment_id
LEFT JOIN done AS a ON e.experiment_id = a.experiment_id
ORDER BY e.experiment_id;

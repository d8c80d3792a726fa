-- rule: every prompt that is named is one of the experiment, and every index is one of its tokens
WITH
named AS (
    SELECT
        'prompt_token' AS place,
        t.experiment_id,
        t.prompt_id,
        t.index
    FROM experiments.prompt_token AS t
    UNION ALL
    SELECT
        'outcome' AS place,
        o.experiment_id,
        o.prompt_id,
        o.index
    FROM experiments.outcome AS o
    UNION ALL
    SELECT
        'generation' AS place,
        g.experiment_id,
        g.prompt_id,
        NULL AS index
    FROM experiments.generation AS g
    UNION ALL
    SELECT
        'effect' AS place,
        e.experiment_id,
        unnest([e.prompt_id, coalesce(e.from_prompt_id, e.prompt_id)]) AS prompt_id,
        e.index
    FROM experiments.effect AS e
    UNION ALL
    SELECT
        'attribution' AS place,
        a.experiment_id,
        a.prompt_id,
        a.index
    FROM experiments.attribution AS a
    UNION ALL
    SELECT
        'attribution_total' AS place,
        t.experiment_id,
        t.prompt_id,
        NULL AS index
    FROM experiments.attribution_total AS t
)

SELECT
    n.*,
    p.n_tokens
FROM named AS n
LEFT JOIN experiments.prompt AS p ON n.experiment_id = p.experiment_id AND n.prompt_id = p.prompt_id
WHERE p.prompt_id IS NULL OR NOT coalesce(n.index BETWEEN 0 AND p.n_tokens - 1, TRUE);

-- rule: every arm that is named is one of the experiment
WITH
named AS (
    SELECT
        'arm_change' AS place,
        c.experiment_id,
        c.arm_id
    FROM experiments.arm_change AS c
    UNION ALL
    SELECT
        'outcome' AS place,
        o.experiment_id,
        o.arm_id
    FROM experiments.outcome AS o
    UNION ALL
    SELECT
        'generation' AS place,
        g.experiment_id,
        g.arm_id
    FROM experiments.generation AS g
    UNION ALL
    SELECT
        'arm_cost' AS place,
        c.experiment_id,
        c.arm_id
    FROM experiments.arm_cost AS c
)

SELECT n.*
FROM named AS n
ANTI JOIN experiments.arm AS a ON n.experiment_id = a.experiment_id AND n.arm_id = a.arm_id;

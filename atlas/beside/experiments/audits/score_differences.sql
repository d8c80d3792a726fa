-- rule: a difference from the base arm is that of the scores that are there, and its interval lies in [-1, 1] or is said to be none
WITH
scored AS (
    SELECT
        s.experiment_id,
        s.arm_id,
        s.prompt_id,
        s.sample,
        s.scorer,
        g.decoding,
        a.role,
        s.score::DOUBLE AS score,
        s.is_over::INTEGER::DOUBLE AS over
    FROM experiments.generation_score AS s
    INNER JOIN experiments.generation AS g
        ON s.experiment_id = g.experiment_id AND s.arm_id = g.arm_id AND s.prompt_id = g.prompt_id AND s.sample = g.sample
    INNER JOIN experiments.arm AS a ON s.experiment_id = a.experiment_id AND s.arm_id = a.arm_id
),

expected AS (
    SELECT
        s.experiment_id,
        s.arm_id,
        s.scorer,
        s.decoding,
        count(*) AS n_pairs,
        avg(s.over - b.over) AS over,
        avg(s.score - b.score) AS score
    FROM scored AS s
    INNER JOIN scored AS b
        ON
            s.experiment_id = b.experiment_id
            AND s.prompt_id = b.prompt_id
            AND s.sample = b.sample
            AND s.scorer = b.scorer
            AND s.decoding = b.decoding
            AND b.role = 'base'
            -- base_arm is broken where there are several, which would all be joined with all
            AND s.experiment_id IN (
                SELECT a.experiment_id
                FROM experiments.arm AS a
                WHERE a.role = 'base'
                GROUP BY a.experiment_id
                HAVING count(*) = 1
            )
    GROUP BY s.experiment_id, s.arm_id, s.scorer, s.decoding
)

SELECT
    d.*,
    e.n_pairs AS n_there
FROM experiments.score_difference AS d
LEFT JOIN expected AS e
    ON d.experiment_id = e.experiment_id AND d.arm_id = e.arm_id AND d.scorer = e.scorer AND d.decoding = e.decoding
WHERE
    e.n_pairs IS DISTINCT FROM d.n_pairs
    OR abs(d.difference - if(d.measure = 'over', e.over, e.score)) > 1e-6
    OR NOT coalesce(-1 <= d.low AND d.low <= d.high AND d.high <= 1, d.low IS NULL AND d.high IS NULL AND d.interval_note IS NOT NULL);

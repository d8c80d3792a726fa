-- rule: a finished experiment has one base arm, one that runs has no more, and it changes nothing
SELECT
    e.experiment_id,
    e.status,
    count(a.arm_id) AS n_base_arms,
    any_value(a.interventions::TEXT) AS interventions
FROM experiments.experiment AS e
LEFT JOIN experiments.arm AS a ON e.experiment_id = a.experiment_id AND a.role = 'base'
GROUP BY e.experiment_id, e.status
HAVING count(a.arm_id) > 1 OR (e.status = 'finished' AND count(a.arm_id) = 0) OR count(*) FILTER (a.interventions::TEXT <> '[]') > 0;

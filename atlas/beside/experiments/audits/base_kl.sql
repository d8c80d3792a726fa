-- rule: the base arm is at no distance from itself
SELECT o.*
FROM experiments.outcome AS o
INNER JOIN experiments.arm AS a ON o.experiment_id = a.experiment_id AND o.arm_id = a.arm_id
WHERE a.role = 'base' AND o.kl_from_base <> 0;

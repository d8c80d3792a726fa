-- rule: scores are of a continuation, and over where they are 0.5 or more
SELECT s.*
FROM experiments.generation_score AS s
LEFT JOIN experiments.generation AS g
    ON s.experiment_id = g.experiment_id AND s.arm_id = g.arm_id AND s.prompt_id = g.prompt_id AND s.sample = g.sample
WHERE g.arm_id IS NULL OR s.is_over <> (s.score >= 0.5);

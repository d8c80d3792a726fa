-- rule: an experiment that is finished says when, and no other does
SELECT
    e.experiment_id,
    e.status,
    e.finished_at
FROM experiments.experiment AS e
WHERE (e.status = 'finished') <> (e.finished_at IS NOT NULL);

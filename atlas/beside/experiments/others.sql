-- experiments with another model's weights; their prompts stand in them, so that no text of the atlas's is asked for
SELECT
    e.experiment_id,
    'model' AS reason
FROM experiments.experiment AS e
WHERE e.weights_sha256 NOT IN (SELECT m.weights_sha256 FROM model AS m)
ORDER BY e.experiment_id;

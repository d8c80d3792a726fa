-- experiments with another model's weights; their prompts stand in them, so that no text of the atlas's is asked for
SELECT
    e.experiment_id,
    'model' AS reason
FROM experiments.experiment AS e
ANTI JOIN model AS m ON e.weights_sha256 = m.weights_sha256
ORDER BY e.experiment_id;

-- rule: experiments are of the model of the atlas
SELECT
    e.experiment_id,
    e.weights_sha256
FROM experiments.experiment AS e
ANTI JOIN model AS m ON e.weights_sha256 = m.weights_sha256;

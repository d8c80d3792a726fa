-- rule: experiments are of the model of the atlas
SELECT
    e.experiment_id,
    e.weights_sha256
FROM experiments.experiment AS e
WHERE e.weights_sha256 NOT IN (SELECT m.weights_sha256 FROM model AS m);

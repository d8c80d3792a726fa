CREATE OR REPLACE VIEW trials.layer_effect AS
SELECT
    t.layer,
    avg(t.effect) AS mean_effect
FROM trials.trial AS t
GROUP BY t.layer;

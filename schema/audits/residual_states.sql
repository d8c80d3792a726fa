-- rule: vectors are stored once: resid_pre of layer 0 only, and resid_mid and resid_post of every layer
SELECT
    r.position_id,
    count(*) FILTER (r.site = 'resid_pre') AS n_resid_pre,
    count(*) FILTER (r.site = 'resid_mid') AS n_resid_mid,
    count(*) FILTER (r.site = 'resid_post') AS n_resid_post
FROM residual_state AS r
CROSS JOIN model AS m
GROUP BY r.position_id, m.n_layers
HAVING
    count(*) FILTER (r.site = 'resid_pre') <> 1
    OR count(*) FILTER (r.site = 'resid_pre' AND r.layer > 0) > 0
    OR count(*) FILTER (r.site = 'resid_mid') <> m.n_layers
    OR count(*) FILTER (r.site = 'resid_post') <> m.n_layers;

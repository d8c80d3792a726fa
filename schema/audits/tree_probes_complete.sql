-- rule: every rank in every place is tried for distances and for depths, in the model and in the untrained one
SELECT
    p.run_id,
    p.layer,
    p.site,
    p.rank,
    count(*) AS n_probes
FROM tree_probe AS p
GROUP BY p.run_id, p.layer, p.site, p.rank
HAVING count(*) <> 4;

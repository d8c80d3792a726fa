-- rule: every place that is probed is probed for the labels, for the control and in the untrained model
SELECT
    p.run_id,
    p.task,
    p.layer,
    p.site,
    count(*) AS n_kinds
FROM probe AS p
GROUP BY p.run_id, p.task, p.layer, p.site
HAVING count(*) <> 3;

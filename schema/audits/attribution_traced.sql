-- rule: predictions are taken apart at traced positions
SELECT DISTINCT a.position_id
FROM attribution AS a
INNER JOIN run AS r ON a.run_id = r.run_id
WHERE r.status = 'finished' AND a.position_id NOT IN (SELECT t.position_id FROM trace AS t);

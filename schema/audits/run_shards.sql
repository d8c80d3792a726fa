-- rule: a finished run has its shards, numbered from 0 without a gap
SELECT
    r.run_id,
    r.n_shards,
    count(s.shard_id) AS n_found
FROM run AS r
LEFT JOIN shard AS s ON r.run_id = s.run_id
WHERE r.status = 'finished'
GROUP BY r.run_id, r.n_shards
HAVING count(s.shard_id) <> r.n_shards OR max(s.shard_id) <> r.n_shards - 1;

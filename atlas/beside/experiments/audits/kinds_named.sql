-- rule: a kind of experiment is named by a word of small letters, digits, - and _, at most 60
SELECT
    e.experiment_id,
    left(e.kind, 60) AS kind
FROM experiments.experiment AS e
WHERE NOT regexp_full_match(e.kind, '[a-z][a-z0-9_-]{0,59}');

-- rule: a name has 1 to 60 letters, digits, spaces and .,:+()_- and is no other's, whatever the case; notes have 2,000 characters or fewer
SELECT c.name
FROM (SELECT n.*, count(*) OVER (PARTITION BY lower(n.name)) AS n_same FROM collections.collection AS n) AS c
WHERE
    NOT regexp_full_match(c.name, '[\p{L}\p{N}\p{M}.,:+()_][\p{L}\p{N}\p{M} .,:+()_-]{0,59}')
    OR c.name <> trim(c.name)
    OR length(c.note) > 2000
    OR c.n_same > 1;

-- rule: a name has 1 to 60 letters, digits, spaces and .,:+()_- and is no other's, whatever the case; notes have 2,000 characters or fewer
SELECT c.name
FROM collections.collection AS c
WHERE
    NOT regexp_full_match(c.name, '[\p{L}\p{N}\p{M}.,:+()_][\p{L}\p{N}\p{M} .,:+()_-]{0,59}')
    OR c.name <> trim(c.name)
    OR length(c.note) > 2000
    OR lower(c.name) IN (SELECT lower(o.name) FROM collections.collection AS o WHERE o.collection_id <> c.collection_id);

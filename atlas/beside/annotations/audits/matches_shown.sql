-- rule: what a pattern explains was shown at its look
SELECT
    p.pattern_id,
    x.rank
FROM annotations.pattern_match AS x
INNER JOIN annotations.pattern AS p ON x.pattern_id = p.pattern_id
LEFT JOIN annotations.annotation_item AS i ON p.annotation_id = i.annotation_id AND x.rank = i.rank
WHERE i.rank IS NULL;

-- rule: of each look there are as many texts or tokens as it says were shown, from rank 1; of tokens without a gap, where a key shows one text a sequence
SELECT
    a.annotation_id,
    a.n_items,
    count(i.rank) AS n_found,
    max(i.rank) AS last_rank
FROM annotations.annotation AS a
LEFT JOIN annotations.annotation_item AS i ON a.annotation_id = i.annotation_id
GROUP BY a.annotation_id, a.subject, a.n_items
HAVING count(i.rank) <> a.n_items OR min(i.rank) IS DISTINCT FROM 1 OR (a.subject <> 'key' AND max(i.rank) <> a.n_items);

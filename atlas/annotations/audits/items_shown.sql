-- rule: of each look there are as many texts or tokens as it says were shown, ranked from 1
SELECT
    a.annotation_id,
    a.n_items,
    count(i.rank) AS n_found,
    max(i.rank) AS last_rank
FROM annotations.annotation AS a
LEFT JOIN annotations.annotation_item AS i ON a.annotation_id = i.annotation_id
GROUP BY a.annotation_id, a.n_items
HAVING count(i.rank) <> a.n_items OR coalesce(max(i.rank), 0) <> a.n_items OR coalesce(min(i.rank), 1) <> 1;

-- rule: neighbours are ranked from 1 by distance, ties by position_id, each entry once, and the first is as near as the query says
SELECT
    b.retrieval_id,
    b.position_id,
    b.rank,
    b.distance
FROM (
    SELECT
        n.*,
        row_number() OVER (PARTITION BY n.retrieval_id, n.position_id ORDER BY n.distance, n.neighbour_position_id) AS place,
        count(*) OVER (PARTITION BY n.retrieval_id, n.position_id, n.neighbour_position_id) AS n_times
    FROM retrievals.knn_neighbour AS n
) AS b
LEFT JOIN retrievals.knn_query AS q ON b.retrieval_id = q.retrieval_id AND b.position_id = q.position_id
WHERE b.rank <> b.place OR b.n_times > 1 OR q.position_id IS NULL OR (b.rank = 1 AND b.distance <> q.nearest_distance);

-- rule: every query, entry and token that is named has its text
SELECT
    'position' AS of_what,
    n.id
FROM (
    SELECT q.position_id AS id FROM retrievals.knn_query AS q
    UNION ALL
    SELECT b.neighbour_position_id AS id FROM retrievals.knn_neighbour AS b
) AS n
WHERE n.id NOT IN (SELECT x.position_id FROM retrievals.position_text AS x)
UNION ALL
SELECT
    'token' AS of_what,
    n.id
FROM (
    SELECT unnest([q.next_token_id, q.top_token_id]) AS id FROM retrievals.knn_query AS q
    UNION ALL
    SELECT p.top_token_id AS id FROM retrievals.knn_prediction AS p
    UNION ALL
    SELECT b.next_token_id AS id FROM retrievals.knn_neighbour AS b
) AS n
WHERE n.id NOT IN (SELECT t.token_id FROM retrievals.token_text AS t);

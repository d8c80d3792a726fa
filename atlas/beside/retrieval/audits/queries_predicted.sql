-- rule: every query is predicted with the chosen settings, a test query with no others, and nothing else is predicted
SELECT
    coalesce(q.retrieval_id, p.retrieval_id) AS retrieval_id,
    coalesce(q.position_id, p.position_id) AS position_id,
    count(p.k) AS n_predictions
FROM retrievals.knn_query AS q
FULL OUTER JOIN retrievals.knn_prediction AS p ON q.retrieval_id = p.retrieval_id AND q.position_id = p.position_id
LEFT JOIN retrievals.retrieval AS r ON q.retrieval_id = r.retrieval_id
GROUP BY ALL
HAVING
    coalesce(bool_or(q.position_id IS NULL OR r.retrieval_id IS NULL), TRUE)
    OR NOT coalesce(bool_or(p.k = r.k AND p.temperature = r.temperature), FALSE)
    OR (any_value(q.part) = 'test' AND count(p.k) <> 1);

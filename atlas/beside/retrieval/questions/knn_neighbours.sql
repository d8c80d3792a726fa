-- title:  Which texts of the store stand where this one stands, and what came next there
-- source: Khandelwal et al. 2020, section 2
-- grain:  retrieval, rank
-- param:  at_position (bigint): position_id of a query; knn_gains() lists some
-- param:  n (integer, 10): how many of the nearest entries, of 32 at most
-- param:  temperature (double, NULL): T of exp(-distance / T), one that knn_curve() has; NULL takes the chosen
-- column: retrieval: retrieval_id of the retrieval that looked for them
-- column: rank: from 1, the nearest
-- column: text_before: at most 80 characters up to the entry
-- column: next_token: the token that follows it
-- column: is_next: whether that is the token that follows the query
-- column: weight: its share of the neighbours' prediction, in [0, 1]; null for a temperature that was not tried here
-- column: distance: squared L2 distance of the keys
-- column: document: name of the entry's document
-- column: neighbour_position_id: the entry
-- column: query_text: at most 80 characters up to the query
-- column: query_next_token: the token that follows the query
-- chart:  bar(rank, weight)
CREATE OR REPLACE MACRO retrievals.knn_neighbours(at_position, n := 10, temperature := NULL) AS TABLE
SELECT
    b.retrieval_id AS retrieval,
    b.rank,
    e.text_before,
    t.text AS next_token,
    b.next_token_id = q.next_token_id AS is_next,
    if(b.rank <= r.k, exp(-b.distance / p.temperature - p.log_normaliser), 0) AS weight,
    b.distance,
    e.document,
    b.neighbour_position_id,
    o.text_before AS query_text,
    f.text AS query_next_token
FROM retrievals.knn_neighbour AS b
INNER JOIN retrievals.retrieval AS r ON b.retrieval_id = r.retrieval_id
INNER JOIN retrievals.knn_query AS q ON b.retrieval_id = q.retrieval_id AND b.position_id = q.position_id
INNER JOIN retrievals.position_text AS e ON b.neighbour_position_id = e.position_id
INNER JOIN retrievals.position_text AS o ON b.position_id = o.position_id
INNER JOIN retrievals.token_text AS t ON b.next_token_id = t.token_id
INNER JOIN retrievals.token_text AS f ON q.next_token_id = f.token_id
LEFT JOIN retrievals.knn_prediction AS p
    ON
        b.retrieval_id = p.retrieval_id
        AND b.position_id = p.position_id
        AND r.k = p.k
        AND p.temperature = coalesce(temperature, r.temperature)
WHERE b.position_id = at_position AND b.rank <= n
ORDER BY b.retrieval_id, b.rank;

-- title:  What do the neighbours predict at a position, and what does the model
-- source: Khandelwal et al. 2020, equation 3
-- grain:  retrieval, token
-- param:  at_position (bigint): position_id of a query; knn_gains() lists some
-- column: retrieval: retrieval_id
-- column: token: the token that follows, the model's most probable token or the neighbours'
-- column: is_next: whether it is the token that follows
-- column: is_model_top: whether it is the model's most probable token
-- column: is_knn_top: whether it is the neighbours' most probable token
-- column: model_prob: the model's probability of it, in [0, 1]; null where it is neither the token that follows nor the model's most probable
-- column: knn_prob: the neighbours' probability of it, as chosen; null where it is neither the token that follows nor their most probable
-- column: mixed_prob: that of the mixture, as chosen; null where one of both is
-- column: n_tokens: distinct tokens that follow the neighbours
-- column: entropy: of the neighbours' prediction, in nats
-- chart:  bar(token, knn_prob)
CREATE OR REPLACE MACRO retrievals.knn_against_model(at_position) AS TABLE
WITH
query AS (
    SELECT
        s.*,
        r.weight,
        p.n_tokens,
        p.entropy
    FROM retrievals.scored_query AS s
    INNER JOIN retrievals.retrieval AS r ON s.retrieval_id = r.retrieval_id
    INNER JOIN retrievals.knn_prediction AS p
        ON
            s.retrieval_id = p.retrieval_id
            AND s.position_id = p.position_id
            AND r.k = p.k
            AND r.temperature = p.temperature
    WHERE s.position_id = at_position
),

named AS (
    SELECT
        q.*,
        unnest(list_distinct([q.next_token_id, q.top_token_id, q.knn_top_token_id])) AS token_id
    FROM query AS q
),

known AS (
    SELECT
        n.*,
        CASE n.token_id WHEN n.next_token_id THEN exp(-n.surprisal) WHEN n.top_token_id THEN n.top_prob END AS model_prob,
        CASE n.token_id WHEN n.next_token_id THEN n.knn_prob WHEN n.knn_top_token_id THEN n.knn_top_prob END AS neighbours_prob
    FROM named AS n
)

SELECT
    k.retrieval_id AS retrieval,
    t.text AS token,
    k.token_id = k.next_token_id AS is_next,
    k.token_id = k.top_token_id AS is_model_top,
    k.token_id = k.knn_top_token_id AS is_knn_top,
    k.model_prob,
    k.neighbours_prob AS knn_prob,
    (1 - k.weight) * k.model_prob + k.weight * k.neighbours_prob AS mixed_prob,
    k.n_tokens,
    k.entropy
FROM known AS k
INNER JOIN retrievals.token_text AS t ON k.token_id = t.token_id
ORDER BY k.retrieval_id, is_next DESC, is_model_top DESC, t.text;

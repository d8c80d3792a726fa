-- rule: of all that was tried the chosen k, temperature and weight give the tune queries the smallest perplexity, within rounding
WITH
mixed AS (
    SELECT
        p.retrieval_id,
        p.k,
        p.temperature,
        w.range / 20::DOUBLE AS weight,
        (1 - weight) * exp(-q.surprisal::DOUBLE) + weight * p.next_token_prob AS prob
    FROM retrievals.knn_prediction AS p
    INNER JOIN retrievals.knn_query AS q ON p.retrieval_id = q.retrieval_id AND p.position_id = q.position_id
    CROSS JOIN range(21) AS w
    WHERE q.part = 'tune'
),

tried AS (
    SELECT
        m.retrieval_id,
        m.k,
        m.temperature,
        m.weight,
        avg(if(m.prob > 0, -ln(m.prob), 'infinity'::DOUBLE)) AS surprisal
    FROM mixed AS m
    GROUP BY ALL
)

SELECT
    r.retrieval_id,
    min(t.surprisal) AS smallest,
    min(t.surprisal) FILTER (t.k = r.k AND t.temperature = r.temperature AND abs(t.weight - r.weight) < 1e-9) AS chosen
FROM retrievals.retrieval AS r
LEFT JOIN tried AS t ON r.retrieval_id = t.retrieval_id
GROUP BY r.retrieval_id
HAVING chosen IS NULL OR chosen > smallest + 1e-6;

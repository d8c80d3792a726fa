-- rule: the parts of a logit sum to what is stored as their sum, and all neurons to the FFNs
WITH
summed AS (
    SELECT
        c.position_id,
        sum(c.final_logit) AS final_sum,
        sum(c.next_logit) AS next_sum,
        sum(c.mean_logit) AS mean_sum,
        sum(c.final_logit) FILTER (WHERE c.kind = 'ffn') AS final_ffns,
        sum(c.next_logit) FILTER (WHERE c.kind = 'ffn') AS next_ffns,
        sum(abs(c.final_logit)) + coalesce(sum(abs(c.next_logit)), 0) + sum(abs(c.mean_logit)) AS size
    FROM contribution AS c
    GROUP BY c.position_id
)

SELECT
    a.position_id,
    a.target,
    a.parts_sum,
    s.final_sum,
    s.next_sum,
    a.mean_logit,
    s.mean_sum,
    a.neurons_up,
    a.neurons_down
FROM attribution AS a
INNER JOIN summed AS s ON a.position_id = s.position_id
CROSS JOIN model AS m
WHERE
    abs(a.parts_sum - if(a.target = 'final', s.final_sum, s.next_sum)) > 1e-5 * (1 + s.size)
    OR abs(a.mean_logit - s.mean_sum) > 1e-5 * (1 + s.size)
    OR (
        m.dtype = 'float32'
        AND abs(a.neurons_up + a.neurons_down - if(a.target = 'final', s.final_ffns, s.next_ffns)) > 1e-4 * (1 + a.neurons_up - a.neurons_down)
    );

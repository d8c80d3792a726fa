-- rule: what the parts of a logit leave over is the residual, and in a float32 model only what rounding makes of it
SELECT
    a.position_id,
    a.target,
    a.logit,
    a.parts_sum,
    a.residual
FROM attribution AS a
CROSS JOIN model AS m
WHERE
    (m.dtype = 'float32' AND abs(a.residual) > 1e-4 * greatest(1, abs(a.logit)))
    OR abs(a.logit - a.parts_sum - a.residual) > 1e-5 * (1 + abs(a.logit));

-- rule: attributions sum to what is said, which is as far from what they explain as is said
WITH
added AS (
    SELECT
        a.experiment_id,
        a.prompt_id,
        a.method,
        a.score,
        a.baseline,
        sum(a.attribution::DOUBLE) AS attributed,
        sum(abs(a.attribution::DOUBLE)) AS turned
    FROM experiments.attribution AS a
    GROUP BY a.experiment_id, a.prompt_id, a.method, a.score, a.baseline
),

explained AS (
    SELECT
        coalesce(t.experiment_id, a.experiment_id) AS experiment_id,
        coalesce(t.prompt_id, a.prompt_id) AS prompt_id,
        coalesce(t.method, a.method) AS method,
        coalesce(t.score, a.score) AS score,
        coalesce(t.baseline, a.baseline) AS baseline,
        t.sum,
        a.attributed,
        a.turned,
        t.completeness_error,
        abs(t.sum::DOUBLE - (t.at_input - t.at_baseline)) / greatest(abs(t.at_input - t.at_baseline), 0.1) AS expected_error
    FROM experiments.attribution_total AS t
    FULL JOIN added AS a
        ON
            t.experiment_id = a.experiment_id
            AND t.prompt_id = a.prompt_id
            AND t.method = a.method
            AND t.score = a.score
            AND t.baseline = a.baseline
)

SELECT x.*
FROM explained AS x
WHERE
    x.sum IS NULL
    OR abs(x.sum - coalesce(x.attributed, 0)) > 1e-4 * (1 + coalesce(x.turned, 0))
    -- the numbers that it is reckoned from have seven digits
    OR abs(x.completeness_error - x.expected_error) > 1e-3 * (1 + x.expected_error)
    OR (x.completeness_error IS NOT NULL AND x.expected_error IS NULL)
    OR (x.completeness_error IS NULL AND x.method = 'integrated_gradients');

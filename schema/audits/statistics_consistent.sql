-- rule: statistics agree with themselves: counts within n_positions, min <= mean <= max, a histogram of 68 bins that sums to n_positions
SELECT
    s.corpus_id,
    s.layer,
    s.neuron,
    s.n_positions,
    s.n_active,
    s.mean,
    s.std,
    s.min,
    s.max
FROM neuron_statistics AS s
WHERE
    s.n_active NOT BETWEEN 0 AND s.n_positions
    OR s.min > s.max
    -- the mean is a double, the extremes are rounded to float
    OR s.mean < s.min - 1e-5 * (1 + abs(s.min))
    OR s.mean > s.max + 1e-5 * (1 + abs(s.max))
    OR s.std < 0
    OR len(s.histogram) <> 68
    OR list_sum(s.histogram) <> s.n_positions;

-- rule: the attention weights of a head at all distances sum to its destinations, as equal weights do, and no bin of distances is missing
SELECT
    d.corpus_id,
    d.layer,
    d.head,
    h.n_destinations,
    min(d.n) AS n_least,
    max(d.n) AS n_most,
    sum(d.weight) AS weight,
    sum(d.uniform) AS uniform
FROM attention_distance AS d
LEFT JOIN head_statistics AS h ON d.corpus_id = h.corpus_id AND d.layer = h.layer AND d.head = h.head
GROUP BY d.corpus_id, d.layer, d.head, h.n_destinations
HAVING
    min(d.n) IS DISTINCT FROM h.n_destinations
    OR max(d.n) IS DISTINCT FROM h.n_destinations
    -- half-precision weights are rounded to three digits
    OR abs(sum(d.weight) - h.n_destinations) > 0.01 * h.n_destinations
    OR abs(sum(d.uniform) - h.n_destinations) > 1e-6 * h.n_destinations
    OR count(*) <> max(d.bin) + 1;

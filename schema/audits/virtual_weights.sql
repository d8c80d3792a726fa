-- rule: virtual weights have ranks from 1 without a gap, moduli that do not rise and squares within their total, and are with earlier or with later layers
WITH
following AS (
    SELECT
        w.*,
        row_number() OVER by_rank AS expected_rank,
        lead(w.weight) OVER by_rank AS next_weight,
        sum(w.weight::DOUBLE * w.weight) OVER (PARTITION BY w.layer, w.neuron, w.side) AS squares
    FROM virtual_weight AS w
    WINDOW by_rank AS (PARTITION BY w.layer, w.neuron, w.side ORDER BY w.rank)
)

SELECT f.*
FROM following AS f
LEFT JOIN virtual_weight_total AS t ON f.layer = t.layer AND f.neuron = t.neuron AND f.side = t.side
CROSS JOIN model AS m
WHERE
    f.rank <> f.expected_rank
    OR abs(f.next_weight) > abs(f.weight)
    OR (f.squares <= t.sum_squares * (1 + 1e-4)) IS DISTINCT FROM TRUE
    OR abs(f.cosine) > 1 + 1e-5
    OR f.other_neuron NOT BETWEEN 0 AND m.d_ffn - 1
    OR f.other_layer NOT BETWEEN 0 AND m.n_layers - 1
    OR f.other_layer = f.layer
    OR (f.other_layer < f.layer) <> (f.side IN ('key', 'gate'))
    OR t.n <> CASE WHEN f.side IN ('key', 'gate') THEN f.layer ELSE m.n_layers - 1 - f.layer END * m.d_ffn;

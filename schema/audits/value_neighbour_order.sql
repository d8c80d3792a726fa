-- rule: neighbours of a value have ranks from 1 without a gap and cosines that do not rise; none is the value itself
WITH
following AS (
    SELECT
        v.*,
        row_number() OVER by_rank AS expected_rank,
        lead(v.cosine) OVER by_rank AS next_cosine
    FROM value_neighbour AS v
    WINDOW by_rank AS (PARTITION BY v.layer, v.neuron ORDER BY v.rank)
)

SELECT f.*
FROM following AS f
CROSS JOIN model AS m
WHERE
    f.rank <> f.expected_rank
    OR f.next_cosine > f.cosine
    OR f.cosine NOT BETWEEN -1 - 1e-5 AND 1 + 1e-5
    OR (f.neighbour_layer = f.layer AND f.neighbour_neuron = f.neuron)
    OR f.neighbour_layer NOT BETWEEN 0 AND m.n_layers - 1
    OR f.neighbour_neuron NOT BETWEEN 0 AND m.d_ffn - 1;

-- title:  How often a key's coefficient takes which size
-- source: view histogram_bin, summed over the corpora
-- grain:  bin
-- n:      n_read
-- param:  layer (integer): transformer block, from 0
-- param:  neuron (integer): FFN hidden unit of the layer, from 0
-- param:  corpus (integer, NULL): one corpus_id; NULL adds all corpora up
-- column: bin: from 0, ascending coefficients; from the first to the last that is not empty
-- column: lower_edge: where it begins, coefficient; included for coefficients >= 0, excluded for negative ones
-- column: upper_edge: where it ends, coefficient; excluded for coefficients >= 0, included for negative ones
-- column: n_positions: positions whose coefficient lies in it, of those that the sweep counts (view swept_corpus)
-- column: share: n_positions / n_read, in [0, 1]
-- column: n_read: all positions that the sweep counts
-- chart:  bar(lower_edge, n_positions)
CREATE OR REPLACE MACRO coefficient_histogram(layer, neuron, corpus := NULL) AS TABLE
WITH
counted AS MATERIALIZED (
    SELECT
        b.bin,
        b.lower_edge,
        b.upper_edge,
        CAST(sum(b.n_positions) AS BIGINT) AS n_positions
    FROM histogram_bin AS b
    WHERE b.layer = layer AND b.neuron = neuron AND (corpus IS NULL OR b.corpus_id = corpus)
    GROUP BY b.bin, b.lower_edge, b.upper_edge
),

filled AS (
    SELECT
        min(c.bin) AS first_bin,
        max(c.bin) AS last_bin,
        sum(c.n_positions) AS n_read
    FROM counted AS c
    WHERE c.n_positions > 0
)

SELECT
    c.bin,
    c.lower_edge,
    c.upper_edge,
    c.n_positions,
    c.n_positions / f.n_read AS share,
    CAST(f.n_read AS BIGINT) AS n_read
FROM counted AS c
INNER JOIN filled AS f ON c.bin BETWEEN f.first_bin AND f.last_bin
ORDER BY c.bin;

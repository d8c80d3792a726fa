-- title:  Of the values surest of one token: how many lie in upper layers, how many are followed by it
-- source: Geva et al. 2021, section 4.2: 97 of the top 100 in layers 11-16 of 16; 46 with at least one trigger followed
-- grain:  n_values
-- n:      n_values
-- param:  n (integer, 100): how many values
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: n_values: values looked at
-- column: first_upper_layer: lowest layer of the upper three eighths, layer >= 5/8 n_layers, from 0
-- column: n_upper: values that lie there
-- column: upper_share: n_upper / n_values, in [0, 1]
-- column: layers_share: share of the model's layers that are upper: what values spread evenly would give
-- column: n_followed: values whose top token follows at least one of their key's top 50 triggers
-- column: followed_share: n_followed / n_values, in [0, 1]
-- chart:  card
CREATE OR REPLACE MACRO geva2021_top_values_summary(n := 100, corpus := NULL) AS TABLE
WITH
counted AS (
    SELECT
        count(*) AS n_values,
        count(*) FILTER (v.is_upper) AS n_upper,
        count(*) FILTER (v.n_followed > 0) AS n_followed
    FROM geva2021_top_values(n := n, corpus := corpus) AS v
)

SELECT
    c.n_values,
    CAST(ceil(m.n_layers * 5 / 8) AS INTEGER) AS first_upper_layer,
    c.n_upper,
    c.n_upper / c.n_values AS upper_share,
    1 - ceil(m.n_layers * 5 / 8) / m.n_layers AS layers_share,
    c.n_followed,
    c.n_followed / c.n_values AS followed_share
FROM counted AS c
CROSS JOIN model AS m;

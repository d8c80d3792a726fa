-- title:  Texts where a key's coefficient is large, middling and small
-- source: table coefficient, cut into quantiles; trigger lists show the ends alone
-- grain:  position_id
-- param:  layer (integer): transformer block, from 0
-- param:  neuron (integer): FFN hidden unit of the layer, from 0
-- param:  n_bins (integer, 5): quantiles, as equal in number as can be
-- param:  n (integer, 3): texts drawn from each
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora
-- column: bin: quantile of the coefficient, from 1, the largest
-- column: lowest: smallest coefficient of the bin
-- column: highest: largest coefficient of the bin
-- column: n_positions: positions in the bin, of which n are shown
-- column: coefficient: m_i, signed, no unit
-- column: text_before: at most 80 characters that the model had read before the token
-- column: token: characters of the token where the coefficient was read
-- column: text_after: at most 40 characters that the model had not read
-- column: next_token: the corpus token that follows; null where the document ends
-- column: document: name of the document
-- column: metadata: what the corpus says of the document, JSON
-- column: corpus_id: the corpus it lies in
-- column: position_id: the token occurrence
-- column: index: place in the sequence, from 0
-- chart:  tokens(token, coefficient)
--
-- Of each traced position and layer an atlas keeps the coefficients of the longest sub-updates: these are not all positions.
-- A hash of the position draws the sample, so that it is the same in every order of rows and for every number of bins.
CREATE OR REPLACE MACRO coefficient_samples(layer, neuron, n_bins := 5, n := 3, corpus := NULL) AS TABLE
WITH
binned AS (
    SELECT
        c.position_id,
        c.coefficient,
        ntile(n_bins) OVER (ORDER BY c.coefficient DESC, c.position_id) AS bin
    FROM coefficient AS c
    INNER JOIN traced_position AS t ON c.position_id = t.position_id
    WHERE c.layer = layer AND c.neuron = neuron AND (corpus IS NULL OR t.corpus_id = corpus)
),

drawn AS MATERIALIZED (
    SELECT
        b.bin,
        min(b.coefficient) OVER (PARTITION BY b.bin) AS lowest,
        max(b.coefficient) OVER (PARTITION BY b.bin) AS highest,
        count(*) OVER (PARTITION BY b.bin) AS n_positions,
        b.coefficient,
        b.position_id
    FROM binned AS b
    QUALIFY row_number() OVER (PARTITION BY b.bin ORDER BY md5(CAST(b.position_id AS VARCHAR))) <= n
)

SELECT
    s.bin,
    s.lowest,
    s.highest,
    s.n_positions,
    s.coefficient,
    c.text_before,
    c.token,
    c.text_after,
    c.next_token,
    c.document,
    c.metadata,
    c.corpus_id,
    s.position_id,
    c.index
FROM drawn AS s
INNER JOIN token_context((SELECT list(i.position_id) FROM drawn AS i)) AS c ON s.position_id = c.position_id
ORDER BY s.bin, s.coefficient DESC, s.position_id;

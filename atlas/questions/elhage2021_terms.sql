-- title:  How much each kind of path through the heads takes off the loss
-- source: Elhage et al. 2021, two-layer models: term importance analysis
-- grain:  corpus_id, place
-- n:      n
-- column: corpus_id: the corpus
-- column: place: order of the rows, from 1
-- column: part: uniform and unigram: all tokens alike, or as frequent as they are; then paths, each beside those before it; model: the model itself
-- column: most_heads: heads on a path, at most; null of uniform, unigram and model
-- column: layer: whose single heads are there while those of all other layers are left out; null elsewhere
-- column: loss: mean negative log-probability of the tokens that follow, nats
-- column: fall: by how much that is less than without the part, nats: than uniform, than the direct path, or than paths through one head less; else null
-- column: last_fall: of a layer's single heads how much less it is with those of all layers than without these, nats
-- column: n: predictions, in sequences of the corpus that the seed drew
-- chart:  bar(part, fall)
--
-- Attention patterns are those of the whole model, so that every path profits from where all of it looks; norms are computed anew. No part was trained to
-- predict without the others: what takes off little may be what others need, and a part can do harm while others are left out.
CREATE OR REPLACE MACRO elhage2021_terms() AS TABLE
WITH
parts AS (
    SELECT
        t.corpus_id,
        'uniform' AS part,
        0 AS kind,
        NULL AS most_heads,
        NULL AS layer,
        ln(m.d_vocab) AS loss,
        t.n
    FROM term_loss AS t
    CROSS JOIN model AS m
    WHERE t.term = 'model'
    UNION ALL
    SELECT
        t.corpus_id,
        CASE
            WHEN t.term = 'layer' THEN 'single heads of layer ' || t.layer
            WHEN t.term <> 'paths' THEN t.term
            ELSE coalesce(['direct path', 'single heads'][t.most_heads + 1], 'virtual heads of order ' || t.most_heads)
        END AS part,
        CASE t.term WHEN 'unigram' THEN 1 WHEN 'model' THEN 3 ELSE 2 END AS kind,
        t.most_heads,
        t.layer,
        t.loss,
        t.n
    FROM term_loss AS t
    WHERE t.term <> 'other_layers'
),

falling AS (
    SELECT
        p.*,
        CASE WHEN p.kind = 1 OR p.most_heads = 0 THEN ln(m.d_vocab) ELSE b.loss END - p.loss AS fall
    FROM parts AS p
    CROSS JOIN model AS m
    LEFT JOIN term_loss AS b ON p.corpus_id = b.corpus_id AND b.term = 'paths' AND p.most_heads - 1 = b.most_heads
)

SELECT
    f.corpus_id,
    row_number() OVER (PARTITION BY f.corpus_id ORDER BY f.kind, f.most_heads, f.layer NULLS FIRST) AS place,
    f.part,
    f.most_heads,
    f.layer,
    f.loss,
    f.fall,
    o.loss - s.loss AS last_fall,
    f.n
FROM falling AS f
LEFT JOIN term_loss AS o ON f.corpus_id = o.corpus_id AND o.term = 'other_layers' AND f.layer = o.layer
LEFT JOIN term_loss AS s ON o.corpus_id = s.corpus_id AND s.term = 'paths' AND s.most_heads = 1
ORDER BY f.corpus_id, place;

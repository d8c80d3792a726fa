-- title:  How many heads copy: ratios of the eigenvalues of all OV circuits
-- source: Elhage et al. 2021, "summarizing OV/QK matrices": Σλ/Σ|λ| of every head
-- grain:  embedding, bin
-- column: embedding: uncentred (the paper's own), token (the output embedding centred) or effective (tokens as the layer finds them)
-- column: bin: from 1 to 20
-- column: lower_edge: lower end of the bin of ratios; the bins take -1 to 1 in steps of 0.1
-- column: n_heads: heads whose ratio is in the bin; its lower end counts, and in the last its upper one
-- column: share: of all heads, in [0, 1]
-- chart:  bar(lower_edge, n_heads)
--
-- The paper finds 10 of the 12 heads of its one-layer model copying.
CREATE OR REPLACE MACRO elhage2021_copying() AS TABLE
WITH
ratio AS (
    UNPIVOT (
        SELECT
            h.layer,
            h.head,
            h.copying_uncentred AS uncentred,
            h.copying_token AS token,
            h.copying_effective AS effective
        FROM head AS h
    )
    ON uncentred, token, effective INTO NAME embedding VALUE ratio
),

place AS (
    SELECT
        e.embedding,
        g.bin
    FROM (VALUES ('uncentred'), ('token'), ('effective')) AS e (embedding)
    CROSS JOIN generate_series(1, 20) AS g (bin)
),

binned AS (
    SELECT
        r.embedding,
        least(floor((r.ratio + 1) * 10)::INTEGER + 1, 20) AS bin
    FROM ratio AS r
)

SELECT
    p.embedding,
    p.bin,
    (p.bin - 11) / 10 AS lower_edge,
    count(b.bin) AS n_heads,
    count(b.bin) / sum(count(b.bin)) OVER (PARTITION BY p.embedding) AS share
FROM place AS p
LEFT JOIN binned AS b ON p.embedding = b.embedding AND p.bin = b.bin
WHERE EXISTS (FROM head)
GROUP BY p.embedding, p.bin
ORDER BY p.embedding DESC, p.bin;

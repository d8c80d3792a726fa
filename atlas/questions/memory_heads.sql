-- title:  Heads that take out of the stream what is there
-- source: Elhage et al. 2021, memory management: heads with large negative eigenvalues that attend to the present token
-- grain:  layer, head
-- n:      n_positions
-- param:  n (integer, 25): how many
-- column: layer: transformer block, from 0
-- column: head: attention head of the layer, from 0
-- column: stream_ratio: Σ Re λ / Σ |λ| of W_OV, in [-1, 1]; -1: it could take out of the stream all that it reads; null without a circuit run
-- column: mean_erased: mean share of the stream that it deletes at traced positions; negative where it adds to what is there; null without an attribution
-- column: erasing_share: share of these positions at which it deletes more than 0.01, in [0, 1]: deletion is often conditional
-- column: n_positions: the traced positions; those at index 0, which see themselves alone, are left out
-- column: self_weight: mean attention weight on the position itself, at the same positions, in [0, 1]
-- column: self_text: the same over whole corpora; null without head_statistics
-- column: self_probe: the same on 50 random tokens read twice; null without a head_probe
-- column: erases_at: the five tokens at which it deletes most, more than 0.01; null if there are none
-- chart:  bar(layer, mean_erased)
-- needs:  circuit
--
-- By falling mean_erased, then rising stream_ratio. Each column alone misleads: what a head could delete it may never read, and a head of the first layers
-- may delete much with a ratio near 0.
-- Whose writing a head deletes at a position is not stored, tens of thousands of numbers a position; `atlas into FILE POSITION L11H6.erased` computes it.
CREATE OR REPLACE MACRO memory_heads(n := 25) AS TABLE
WITH
erasing AS (
    SELECT
        c.layer,
        c.head,
        avg(c.erased) AS mean_erased,
        avg(CAST(c.erased > 0.01 AS INTEGER)) AS erasing_share,
        count(*) AS n_positions,
        avg(a.self_weight) AS self_weight
    FROM contribution AS c
    INNER JOIN position AS p ON c.position_id = p.position_id
    INNER JOIN head_activity AS a ON c.position_id = a.position_id AND c.layer = a.layer AND c.head = a.head
    WHERE c.kind = 'head' AND p.index > 0
    GROUP BY c.layer, c.head
),

shown AS (
    SELECT
        coalesce(h.layer, e.layer) AS layer,
        coalesce(h.head, e.head) AS head,
        h.stream_ratio,
        e.mean_erased,
        e.erasing_share,
        coalesce(e.n_positions, 0) AS n_positions,
        e.self_weight
    FROM head AS h
    FULL JOIN erasing AS e ON h.layer = e.layer AND h.head = e.head
    ORDER BY e.mean_erased DESC NULLS LAST, h.stream_ratio, coalesce(h.layer, e.layer), coalesce(h.head, e.head)
    LIMIT n
),

erased AS (
    SELECT
        c.layer,
        c.head,
        k.text,
        max(c.erased) AS most
    FROM contribution AS c
    INNER JOIN position AS p ON c.position_id = p.position_id
    INNER JOIN token AS k ON p.token_id = k.token_id
    WHERE c.kind = 'head' AND p.index > 0 AND c.erased > 0.01
    GROUP BY c.layer, c.head, k.text
),

listed AS (
    SELECT
        e.layer,
        e.head,
        list(e.text ORDER BY e.most DESC, e.text)[:5] AS erases_at
    FROM erased AS e
    GROUP BY e.layer, e.head
),

looking AS (
    SELECT
        b.layer,
        b.head,
        sum(b.n * b.weight) FILTER (b.probe IS NULL) / nullif(sum(b.n) FILTER (b.probe IS NULL), 0) AS self_text,
        any_value(b.weight) FILTER (b.probe = 'repeat') AS self_probe
    FROM head_behaviour AS b
    WHERE b.behaviour = 'self'
    GROUP BY b.layer, b.head
)

SELECT
    s.*,
    l.self_text,
    l.self_probe,
    e.erases_at
FROM shown AS s
LEFT JOIN looking AS l ON s.layer = l.layer AND s.head = l.head
LEFT JOIN listed AS e ON s.layer = e.layer AND s.head = e.head
ORDER BY s.mean_erased DESC NULLS LAST, s.stream_ratio, s.layer, s.head;

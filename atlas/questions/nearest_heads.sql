-- title:  Heads that look at the same things as a head
-- source: Elhage et al. 2021 and Olsson et al. 2022: what heads look at, here compared
-- grain:  rank
-- param:  layer (integer): transformer block, from 0
-- param:  head (integer): attention head of the layer, from 0
-- param:  n (integer, 20): how many, the nearest first
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora together
-- column: rank: from 1, by rising distance
-- column: layer: of the near head, from 0
-- column: head: of the near head, from 0
-- column: distance: mean absolute difference of what both look at, over n_compared means of weights, in [0, 1]; 0: they look at the same
-- column: n_compared: means that both heads have: of each behaviour on random tokens that repeat, on Olsson et al.'s, and on text
-- column: differs_most: the behaviour of the largest difference: previous, self, first, duplicate, induction or first_moved
-- column: difference: by how much more weight the near head puts there than the one asked for, in [-1, 1]
-- column: induction: its mean weight on tokens after an earlier copy, on random tokens that repeat; on text where no head was probed
-- chart:  bar(head, distance)
--
-- Heads that look at the same may write otherwise: head_card says whether they copy what they find.
CREATE OR REPLACE MACRO nearest_heads(layer, head, n := 20, corpus := NULL) AS TABLE
WITH
looks AS MATERIALIZED (
    SELECT
        b.layer,
        b.head,
        b.behaviour,
        coalesce(b.probe, 'text') AS on_what,
        sum(b.n * b.weight) / nullif(sum(b.n), 0) AS weight
    FROM head_behaviour AS b
    WHERE b.corpus_id IS NULL OR corpus IS NULL OR b.corpus_id = corpus
    GROUP BY b.layer, b.head, b.behaviour, on_what
    HAVING weight IS NOT NULL
),

compared AS (
    SELECT
        o.layer,
        o.head,
        avg(abs(o.weight - i.weight)) AS distance,
        count(*) AS n_compared,
        arg_max(o.behaviour, (abs(o.weight - i.weight), o.behaviour)) AS differs_most,
        arg_max(o.weight - i.weight, (abs(o.weight - i.weight), o.behaviour)) AS difference,
        coalesce(
            max(o.weight) FILTER (o.behaviour = 'induction' AND o.on_what = 'repeat'), max(o.weight) FILTER (o.behaviour = 'induction' AND o.on_what = 'text')
        ) AS induction
    FROM looks AS o
    INNER JOIN looks AS i ON o.behaviour = i.behaviour AND o.on_what = i.on_what
    WHERE i.layer = layer AND i.head = head AND (o.layer <> layer OR o.head <> head)
    GROUP BY o.layer, o.head
)

SELECT
    row_number() OVER (ORDER BY c.distance, c.layer, c.head) AS rank,
    c.layer,
    c.head,
    c.distance,
    c.n_compared,
    c.differs_most,
    c.difference,
    c.induction
FROM compared AS c
ORDER BY rank
LIMIT n;

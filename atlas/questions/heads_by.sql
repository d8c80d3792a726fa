-- title:  Heads that show a behaviour most, on random tokens that repeat and on text
-- source: Elhage et al. 2021, "Two-layer attention-only transformers"; Olsson et al. 2022: prefix matching
-- grain:  layer, head
-- n:      n_text
-- param:  behaviour (text, 'induction'): previous, self, first, duplicate or induction: what it looks at; first_moved: share of index 0 in what sources move
-- param:  n (integer, 20): how many heads, the strongest first
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora together
-- column: layer: transformer block, from 0
-- column: head: attention head of the layer, from 0
-- column: probe: mean attention weight there on 50 random tokens read twice, in [0, 1]; null without a head_probe
-- column: probe_uniform: the same for weights that are equal on all that a position sees
-- column: olsson: mean weight there on 25 random tokens read four times after BOS; for induction their prefix-matching score
-- column: text: mean weight there on the corpora, in [0, 1]; null without head_statistics
-- column: text_uniform: the same for equal weights, at the same positions
-- column: n_text: positions of the corpora that text is over; none is at index 0, and of duplicate and induction each has a token that came before
-- chart:  bar(head, probe)
-- needs:  heads
--
-- Ordered by probe, or by text where no head was probed.
CREATE OR REPLACE MACRO heads_by(behaviour := 'induction', n := 20, corpus := NULL) AS TABLE
WITH
shown AS (
    SELECT
        b.layer,
        b.head,
        b.probe,
        b.weight,
        b.uniform,
        b.n
    FROM head_behaviour AS b
    WHERE b.behaviour = behaviour AND (b.corpus_id IS NULL OR corpus IS NULL OR b.corpus_id = corpus)
)

SELECT
    s.layer,
    s.head,
    any_value(s.weight) FILTER (s.probe = 'repeat') AS probe,
    any_value(s.uniform) FILTER (s.probe = 'repeat') AS probe_uniform,
    any_value(s.weight) FILTER (s.probe = 'olsson2022') AS olsson,
    sum(s.n * s.weight) FILTER (s.probe IS NULL) / nullif(sum(s.n) FILTER (s.probe IS NULL), 0) AS text,
    sum(s.n * s.uniform) FILTER (s.probe IS NULL) / nullif(sum(s.n) FILTER (s.probe IS NULL), 0) AS text_uniform,
    CAST(coalesce(sum(s.n) FILTER (s.probe IS NULL), 0) AS BIGINT) AS n_text
FROM shown AS s
GROUP BY s.layer, s.head
ORDER BY probe DESC NULLS LAST, text DESC NULLS LAST, s.layer, s.head
LIMIT n;

-- title:  What one head looks at, on random tokens that repeat and on text
-- source: Elhage et al. 2021, "Two-layer attention-only transformers"; Olsson et al. 2022: prefix matching
-- grain:  behaviour
-- n:      n_text
-- param:  layer (integer): transformer block, from 0
-- param:  head (integer): attention head of the layer, from 0
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora together
-- column: behaviour: previous, self, first, duplicate or induction: what it looks at; first_moved: share of index 0 in what sources move
-- column: probe: mean attention weight there on 50 random tokens read twice, in [0, 1]; null without a head_probe
-- column: probe_uniform: the same for weights that are equal on all that a position sees
-- column: olsson: mean weight there on 25 random tokens read four times after BOS; for induction their prefix-matching score
-- column: text: mean weight there on the corpora, in [0, 1]; null without head_statistics
-- column: text_uniform: the same for equal weights, at the same positions
-- column: n_text: positions of the corpora that text is over; none is at index 0, and of duplicate and induction each has a token that came before
-- chart:  bar(behaviour, probe)
CREATE OR REPLACE MACRO head_behaviours(layer, head, corpus := NULL) AS TABLE
SELECT
    b.behaviour,
    any_value(b.weight) FILTER (b.probe = 'repeat') AS probe,
    any_value(b.uniform) FILTER (b.probe = 'repeat') AS probe_uniform,
    any_value(b.weight) FILTER (b.probe = 'olsson2022') AS olsson,
    sum(b.n * b.weight) FILTER (b.probe IS NULL) / nullif(sum(b.n) FILTER (b.probe IS NULL), 0) AS text,
    sum(b.n * b.uniform) FILTER (b.probe IS NULL) / nullif(sum(b.n) FILTER (b.probe IS NULL), 0) AS text_uniform,
    CAST(coalesce(sum(b.n) FILTER (b.probe IS NULL), 0) AS BIGINT) AS n_text
FROM head_behaviour AS b
WHERE b.layer = layer AND b.head = head AND (b.corpus_id IS NULL OR corpus IS NULL OR b.corpus_id = corpus)
GROUP BY b.behaviour
ORDER BY list_position(['previous', 'self', 'first', 'duplicate', 'induction', 'first_moved'], b.behaviour);

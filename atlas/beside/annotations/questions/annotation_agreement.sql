-- title:  How far do annotators agree on what has a pattern?
-- source: Cohen 1960 (kappa); the coverage of Geva et al. 2021, figure 2, and 2022, section 4
-- grain:  subject, annotator, other_annotator
-- n:      n_items
-- param:  corpus (integer, NULL): one corpus_id, for keys and FFN updates; NULL takes all corpora
-- column: subject: key, value, random_vector or ffn_update
-- column: annotator: the first of the two, people before the miner, then by name
-- column: other_annotator: the second
-- column: other_kind: person, or proposed by the program: then this is no agreement between people
-- column: n_annotated: keys or vectors that both looked at
-- column: n_items: texts or tokens that both were shown
-- column: both_cover: share of them that both explain by a pattern, in [0, 1]
-- column: one_covers: share that one of the two explains
-- column: neither_covers: share that neither explains; the three shares sum to 1
-- column: kappa: Cohen's kappa of covered against uncovered, in [-1, 1], 0 for chance; null where chance alone gives full agreement
-- column: same_kinds: share, of the items both explain, that both explain by the same kinds of patterns, in [0, 1]; null if there are none
-- chart:  bar(subject, kappa)
--
-- Kappa: two annotators, the same items, two classes and none missing. With p = both_cover + neither_covers and e the agreement of two annotators who cover
-- the same shares as these at random, it is (p - e) / (1 - e). Descriptions are free text and are not compared.
CREATE OR REPLACE MACRO annotations.annotation_agreement(corpus := NULL) AS TABLE
WITH
pair AS (
    SELECT
        a.subject,
        a.annotator,
        b.annotator AS other_annotator,
        b.annotator_kind AS other_kind,
        a.annotation_id,
        a.n_patterns > 0 AS is_covered,
        b.n_patterns > 0 AS is_covered_by_other,
        [a.is_shallow, a.is_semantic, a.is_syntactic, a.is_names] = [b.is_shallow, b.is_semantic, b.is_syntactic, b.is_names] AS has_same_kinds
    FROM annotations.annotated_item AS a
    INNER JOIN annotations.annotated_item AS b
        ON
            a.subject = b.subject
            AND a.corpus_id IS NOT DISTINCT FROM b.corpus_id
            AND a.layer = b.layer
            AND a.item = b.item
            AND a.position_id IS NOT DISTINCT FROM b.position_id
            AND a.token_id = b.token_id
            AND (a.annotator_kind, a.annotator) < (b.annotator_kind, b.annotator)
    WHERE corpus IS NULL OR a.corpus_id IS NULL OR a.corpus_id = corpus
),

counted AS (
    SELECT
        p.subject,
        p.annotator,
        p.other_annotator,
        p.other_kind,
        count(DISTINCT p.annotation_id) AS n_annotated,
        count(*) AS n_items,
        count(*) FILTER (p.is_covered AND p.is_covered_by_other) / count(*) AS both_cover,
        count(*) FILTER (p.is_covered <> p.is_covered_by_other) / count(*) AS one_covers,
        count(*) FILTER (NOT p.is_covered AND NOT p.is_covered_by_other) / count(*) AS neither_covers,
        count(*) FILTER (p.is_covered) / count(*) AS covered,
        count(*) FILTER (p.is_covered_by_other) / count(*) AS covered_by_other,
        avg(p.has_same_kinds::INTEGER) FILTER (p.is_covered AND p.is_covered_by_other) AS same_kinds
    FROM pair AS p
    GROUP BY p.subject, p.annotator, p.other_annotator, p.other_kind
),

expected AS (
    SELECT
        c.*,
        c.covered * c.covered_by_other + (1 - c.covered) * (1 - c.covered_by_other) AS by_chance
    FROM counted AS c
)

SELECT
    e.subject,
    e.annotator,
    e.other_annotator,
    e.other_kind,
    e.n_annotated,
    e.n_items,
    e.both_cover,
    e.one_covers,
    e.neither_covers,
    (e.both_cover + e.neither_covers - e.by_chance) / nullif(1 - e.by_chance, 0) AS kappa,
    e.same_kinds
FROM expected AS e
ORDER BY e.subject, e.annotator, e.other_kind, e.other_annotator;

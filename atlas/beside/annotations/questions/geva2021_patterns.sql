-- title:  How many patterns does a key have, and how much do they explain?
-- source: Geva et al. 2021, section 3
-- grain:  annotator_kind
-- n:      n_keys
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora
-- param:  annotator (text, NULL): one annotator, the miner too; NULL takes all people, and proposals only where no person has annotated keys
-- column: annotator_kind: person, or proposed by the program
-- column: n_annotators: annotators
-- column: n_keys: keys looked at; one that two annotators looked at counts twice
-- column: n_prefixes: texts shown
-- column: patterns_per_key: mean patterns of a key
-- column: shallow_per_key: of them shallow
-- column: semantic_per_key: of them semantic
-- column: keys_with_pattern: share of the keys that have one or more, in [0, 1]
-- column: covered: share of the texts that a pattern explains, in [0, 1]
-- chart:  card
-- needs:  annotated keys
CREATE OR REPLACE MACRO annotations.geva2021_patterns(corpus := NULL, annotator := NULL) AS TABLE
WITH
shown AS (
    SELECT
        i.annotation_id,
        i.annotator,
        i.annotator_kind,
        count(*) AS n_prefixes,
        count(*) FILTER (i.n_patterns > 0) AS n_covered
    FROM annotations.annotated_item AS i
    WHERE
        i.subject = 'key'
        AND (corpus IS NULL OR i.corpus_id = corpus)
        AND if(annotator IS NULL, i.is_counted, lower(i.annotator) = lower(annotator))
    GROUP BY i.annotation_id, i.annotator, i.annotator_kind
),

found AS (
    SELECT
        p.annotation_id,
        count(*) FILTER (p.kind = 'shallow') AS n_shallow,
        count(*) FILTER (p.kind = 'semantic') AS n_semantic
    FROM annotations.pattern AS p
    GROUP BY p.annotation_id
)

SELECT
    s.annotator_kind,
    count(DISTINCT s.annotator) AS n_annotators,
    count(*) AS n_keys,
    sum(s.n_prefixes)::BIGINT AS n_prefixes,
    avg(coalesce(f.n_shallow + f.n_semantic, 0)) AS patterns_per_key,
    avg(coalesce(f.n_shallow, 0)) AS shallow_per_key,
    avg(coalesce(f.n_semantic, 0)) AS semantic_per_key,
    count(f.annotation_id) / count(*) AS keys_with_pattern,
    sum(s.n_covered) / sum(s.n_prefixes) AS covered
FROM shown AS s
LEFT JOIN found AS f ON s.annotation_id = f.annotation_id
GROUP BY s.annotator_kind
ORDER BY s.annotator_kind;

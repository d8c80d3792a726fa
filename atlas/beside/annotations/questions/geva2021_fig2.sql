-- title:  How much of the texts that trigger a key do shallow and semantic patterns explain?
-- source: Geva et al. 2021, section 3 and figure 2
-- grain:  layer
-- n:      n_prefixes
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora
-- param:  annotator (text, NULL): one annotator, the miner too; NULL takes all people, and proposals only where no person has annotated keys
-- column: layer: transformer block, from 0; a layer without annotated keys has no row
-- column: annotator_kind: person, or proposed by the program
-- column: n_keys: keys looked at; one that two annotators looked at counts twice
-- column: n_prefixes: texts shown, 25 of each key unless the atlas holds fewer
-- column: shallow: share of the texts that shallow patterns alone explain, in [0, 1]
-- column: semantic: share that semantic patterns alone explain
-- column: shallow_and_semantic: share that patterns of both kinds explain
-- column: uncovered: share that no pattern explains; the four shares sum to 1
-- chart:  bar(layer, shallow)
-- needs:  annotated keys
CREATE OR REPLACE MACRO annotations.geva2021_fig2(corpus := NULL, annotator := NULL) AS TABLE
SELECT
    i.layer,
    i.annotator_kind,
    count(DISTINCT i.annotation_id) AS n_keys,
    count(*) AS n_prefixes,
    count(*) FILTER (i.is_shallow AND NOT i.is_semantic) / count(*) AS shallow,
    count(*) FILTER (i.is_semantic AND NOT i.is_shallow) / count(*) AS semantic,
    count(*) FILTER (i.is_shallow AND i.is_semantic) / count(*) AS shallow_and_semantic,
    count(*) FILTER (i.n_patterns = 0) / count(*) AS uncovered
FROM annotations.annotated_item AS i
WHERE
    i.subject = 'key'
    AND (corpus IS NULL OR i.corpus_id = corpus)
    AND if(annotator IS NULL, i.is_counted, lower(i.annotator) = lower(annotator))
GROUP BY i.layer, i.annotator_kind
ORDER BY i.layer;

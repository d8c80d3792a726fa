-- title:  Which kinds of concepts do the tokens belong to that each layer's values promote?
-- source: Geva et al. 2022, section 4 and figure 2
-- grain:  layer
-- n:      n_tokens
-- param:  subject (text, 'value'): value, or random_vector or ffn_update to compare with
-- param:  corpus (integer, NULL): one corpus_id, for FFN updates; NULL takes all corpora
-- param:  annotator (text, NULL): one annotator; NULL takes all people, and proposals only where no person has annotated the subject
-- column: layer: transformer block, from 0; a layer without annotated vectors has no row
-- column: annotator_kind: person, or proposed by the program
-- column: n_vectors: vectors looked at; one that two annotators looked at counts twice
-- column: n_tokens: tokens shown, 30 of each vector unless the atlas holds fewer
-- column: semantic: share of the tokens in semantic concepts alone, in [0, 1]
-- column: syntactic: share in syntactic concepts alone
-- column: names: share in concepts of names alone
-- column: several: share in concepts of more than one kind
-- column: uncovered: share in no concept; the five shares sum to 1
-- chart:  bar(layer, semantic)
-- needs:  annotated values
CREATE OR REPLACE MACRO annotations.geva2022_fig2(subject := 'value', corpus := NULL, annotator := NULL) AS TABLE
WITH
shown AS (
    SELECT
        i.*,
        i.is_semantic::INTEGER + i.is_syntactic::INTEGER + i.is_names::INTEGER AS n_kinds
    FROM annotations.annotated_item AS i
    WHERE
        i.subject = subject
        AND i.subject <> 'key'
        AND (corpus IS NULL OR i.corpus_id IS NULL OR i.corpus_id = corpus)
        AND if(annotator IS NULL, i.is_counted, lower(i.annotator) = lower(annotator))
)

SELECT
    s.layer,
    s.annotator_kind,
    count(DISTINCT s.annotation_id) AS n_vectors,
    count(*) AS n_tokens,
    count(*) FILTER (s.n_kinds = 1 AND s.is_semantic) / count(*) AS semantic,
    count(*) FILTER (s.n_kinds = 1 AND s.is_syntactic) / count(*) AS syntactic,
    count(*) FILTER (s.n_kinds = 1 AND s.is_names) / count(*) AS names,
    count(*) FILTER (s.n_kinds > 1) / count(*) AS several,
    count(*) FILTER (s.n_kinds = 0) / count(*) AS uncovered
FROM shown AS s
GROUP BY s.layer, s.annotator_kind
ORDER BY s.layer;

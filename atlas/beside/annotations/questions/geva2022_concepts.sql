-- title:  How many of the tokens that values, random vectors and FFN updates promote belong to a concept?
-- source: Geva et al. 2022, section 4, tables 1 and 2
-- grain:  subject
-- n:      n_tokens
-- param:  corpus (integer, NULL): one corpus_id, for FFN updates; NULL takes all corpora
-- param:  annotator (text, NULL): one annotator; NULL takes all people, and proposals only where no person has annotated the subject
-- column: subject: value, random_vector (as the values in mean and standard deviation) or ffn_update
-- column: annotator_kind: person, or proposed by the program
-- column: n_vectors: vectors looked at; one that two annotators looked at counts twice
-- column: n_concepts: concepts found
-- column: n_tokens: tokens shown, 30 of each vector unless the atlas holds fewer
-- column: n_stop_words: of them stop words
-- column: in_concept: share of the tokens that a concept explains, in [0, 1]
-- column: in_concept_without_stop_words: the same share of the tokens that are no stop words; null if all are
-- column: semantic: share of the tokens in semantic concepts alone, in [0, 1]
-- column: syntactic: share in syntactic concepts alone
-- column: names: share in concepts of names alone
-- column: several: share in concepts of more than one kind; the four shares sum to in_concept
-- chart:  bar(subject, in_concept)
-- needs:  annotated vectors
--
-- Stop words are left out of both sides of their share: tokens shown and tokens explained.
CREATE OR REPLACE MACRO annotations.geva2022_concepts(corpus := NULL, annotator := NULL) AS TABLE
WITH
shown AS (
    SELECT
        i.*,
        i.is_semantic::INTEGER + i.is_syntactic::INTEGER + i.is_names::INTEGER AS n_kinds
    FROM annotations.annotated_item AS i
    WHERE
        i.subject <> 'key'
        AND (corpus IS NULL OR i.corpus_id IS NULL OR i.corpus_id = corpus)
        AND if(annotator IS NULL, i.is_counted, lower(i.annotator) = lower(annotator))
),

found AS (
    SELECT
        a.subject,
        count(*) AS n_concepts
    FROM annotations.pattern AS p
    INNER JOIN annotations.annotation AS a ON p.annotation_id = a.annotation_id
    WHERE p.annotation_id IN (SELECT s.annotation_id FROM shown AS s)
    GROUP BY a.subject
)

SELECT
    s.subject,
    s.annotator_kind,
    count(DISTINCT s.annotation_id) AS n_vectors,
    coalesce(max(f.n_concepts), 0) AS n_concepts,
    count(*) AS n_tokens,
    count(*) FILTER (s.is_stop_word) AS n_stop_words,
    count(*) FILTER (s.n_kinds > 0) / count(*) AS in_concept,
    count(*) FILTER (s.n_kinds > 0 AND NOT s.is_stop_word) / nullif(count(*) FILTER (NOT s.is_stop_word), 0) AS in_concept_without_stop_words,
    count(*) FILTER (s.n_kinds = 1 AND s.is_semantic) / count(*) AS semantic,
    count(*) FILTER (s.n_kinds = 1 AND s.is_syntactic) / count(*) AS syntactic,
    count(*) FILTER (s.n_kinds = 1 AND s.is_names) / count(*) AS names,
    count(*) FILTER (s.n_kinds > 1) / count(*) AS several
FROM shown AS s
LEFT JOIN found AS f ON s.subject = f.subject
GROUP BY s.subject, s.annotator_kind
ORDER BY s.subject DESC;

-- title:  Whose labels the words of a text have
-- source: table word
-- grain:  corpus_id, source
-- n:      n_words
-- param:  corpus (integer, NULL): one corpus_id; NULL gives the rows of each corpus
-- column: corpus_id: the corpus whose words are labelled
-- column: source: silver: a tagger's, which no person has looked at; file: of a CoNLL-U file; white space: cut there, without labels
-- column: n_words: words that the model reads
-- column: n_unaligned: of these, words that no token ends with: they have no state of their own, and no probe looks at them
-- column: n_sentences: sentences they are in
-- column: n_documents: documents they are in
-- column: n_heads: words whose head is known; roots of sentences have none
-- column: n_entity: words that are part of a named entity
-- chart:  bar(source, n_words)
CREATE OR REPLACE MACRO word_sources(corpus := NULL) AS TABLE
SELECT
    w.corpus_id,
    w.source,
    count(*) AS n_words,
    count(*) - count(w.last_position_id) AS n_unaligned,
    count(DISTINCT row(w.document_id, w.sentence)) AS n_sentences,
    count(DISTINCT w.document_id) AS n_documents,
    count(w.head_word_id) AS n_heads,
    count(w.entity) AS n_entity
FROM word AS w
WHERE corpus IS NULL OR w.corpus_id = corpus
GROUP BY w.corpus_id, w.source
ORDER BY w.corpus_id, w.source;

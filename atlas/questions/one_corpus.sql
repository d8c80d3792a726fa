-- title:  The corpus that a question of one text is of: the one asked for, or the only one that there is
-- source: table corpus
-- grain:  corpus_id
-- param:  corpora (bigint[]): corpus_ids that there is something of, such as [0]; one named twice counts once
-- param:  corpus (integer, NULL): one corpus_id, given back as it is; NULL takes the only one of corpora, and several are an error that names them
-- column: corpus_id: the corpus; null where corpora has none
-- chart:  card
--
-- Shares and means over several texts depend on how long each happens to be, and a key has a list of triggers for each.
CREATE OR REPLACE MACRO one_corpus(corpora, corpus := NULL) AS TABLE
SELECT
    CASE
        WHEN corpus IS NOT NULL THEN CAST(corpus AS INTEGER)
        WHEN count(*) < 2 THEN CAST(min(u.corpus_id) AS INTEGER)
        ELSE
            error(
                'this is a question of one text, and there are several: say which by corpus, '
                || string_agg(u.corpus_id || ' (' || c.name || ', ' || c.split || ')', ' or ' ORDER BY u.corpus_id)
            )
    END AS corpus_id
FROM (SELECT DISTINCT unnest(corpora) AS corpus_id) AS u
LEFT JOIN corpus AS c ON u.corpus_id = c.corpus_id;

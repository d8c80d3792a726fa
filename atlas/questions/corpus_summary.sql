-- title:  The corpora of the atlas and how much of each was read
-- source: tables corpus, run, trigger, view swept_corpus
-- grain:  corpus_id
-- column: corpus_id: counted from 0 in the order of ingest
-- column: name: what the user called for
-- column: split: part of the corpus; 'all' where it has none
-- column: revision: commit or version of the source; null for local files
-- column: context: tokens the model read at once
-- column: n_documents: documents
-- column: n_positions: token occurrences
-- column: n_swept: of them those whose coefficients count in triggers and statistics
-- column: n_traced: of them traced
-- column: triggers_per_tail: largest number kept of each key and tail; null without a sweep
-- column: skip_first: positions at the start of each sequence that do not count; null without a sweep
-- column: distinct_tokens: of positions whose last so many tokens are equal, each list keeps the best; 0 where it keeps all, null without a sweep
-- column: sha256: over names, metadata and texts of the documents, hexadecimal
-- chart:  card
--
-- A sweep reads every key at every position and keeps as many triggers of each, so the first key speaks for all.
CREATE OR REPLACE MACRO corpus_summary() AS TABLE
WITH
traced AS (
    SELECT
        r.corpus_id,
        count(*) AS n_traced
    FROM trace AS t
    INNER JOIN run AS r ON t.run_id = r.run_id
    GROUP BY r.corpus_id
),

kept AS (
    SELECT
        t.corpus_id,
        max(t.rank) AS triggers_per_tail
    FROM trigger AS t
    WHERE t.layer = 0 AND t.neuron = 0
    GROUP BY t.corpus_id
)

SELECT
    c.corpus_id,
    c.name,
    c.split,
    c.revision,
    (c.source ->> 'context')::INTEGER AS context,
    c.n_documents,
    c.n_positions,
    coalesce(s.n_positions, 0) AS n_swept,
    coalesce(t.n_traced, 0) AS n_traced,
    k.triggers_per_tail,
    s.skip_first,
    s.distinct_tokens,
    c.sha256
FROM corpus AS c
LEFT JOIN swept_corpus AS s ON c.corpus_id = s.corpus_id
LEFT JOIN traced AS t ON c.corpus_id = t.corpus_id
LEFT JOIN kept AS k ON c.corpus_id = k.corpus_id
ORDER BY c.corpus_id;

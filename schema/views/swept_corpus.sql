-- title:  By which rule a corpus was swept, and how many of its positions count
-- source: tables run and neuron_statistics
-- grain:  corpus_id
--
-- Index 0 is the first position of a sequence, not of a document: a document longer than the context is cut into several sequences.
-- Every neuron counts the same positions, so the first speaks for all.
CREATE OR REPLACE VIEW swept_corpus AS
SELECT
    r.corpus_id,
    coalesce((r.settings ->> 'skip_first')::INTEGER, 0) AS skip_first,
    coalesce((r.settings ->> 'distinct')::INTEGER, 0) AS distinct_tokens,
    s.n_positions
FROM run AS r
LEFT JOIN neuron_statistics AS s ON r.corpus_id = s.corpus_id AND s.layer = 0 AND s.neuron = 0
WHERE r.kind = 'sweep';
COMMENT ON VIEW swept_corpus IS 'Which positions of a corpus enter triggers, statistics and histograms.';
COMMENT ON COLUMN swept_corpus.corpus_id IS 'The corpus.';
COMMENT ON COLUMN swept_corpus.skip_first IS 'Positions at an index below it were read and left out; 0 in sweeps of older releases.';
COMMENT ON COLUMN swept_corpus.distinct_tokens IS 'Of positions whose last so many tokens are equal, lists keep the best alone; 0 where they keep all.';
COMMENT ON COLUMN swept_corpus.n_positions IS 'Positions that count; null where none is loaded.';

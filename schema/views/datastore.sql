-- title:  Texts whose keys are kept beside the atlas
-- source: table key_file
-- grain:  corpus_id
CREATE OR REPLACE VIEW datastore AS
SELECT
    f.corpus_id,
    f.key_site,
    f.layer,
    f.min_index,
    f.dtype,
    CAST(sum(f.n_entries) AS BIGINT) AS n_entries,
    count(*) AS n_files,
    CAST(sum(f.n_bytes) AS BIGINT) AS n_bytes,
    sha256(string_agg(f.sha256, '' ORDER BY f.first_position_id)) AS sha256
FROM key_file AS f
GROUP BY f.corpus_id, f.key_site, f.layer, f.min_index, f.dtype;
COMMENT ON VIEW datastore IS 'Stores of keys, one a corpus: what atlas retrieve looks for neighbours in, and takes the queries of other corpora from.';
COMMENT ON COLUMN datastore.corpus_id IS 'The corpus whose positions are the entries.';
COMMENT ON COLUMN datastore.key_site IS 'Which state a key is: ffn_in, the input of the FFN''s up projection.';
COMMENT ON COLUMN datastore.layer IS 'Transformer block, counted from 0: the last.';
COMMENT ON COLUMN datastore.min_index IS 'Positions of a smaller index in their sequence are no entries.';
COMMENT ON COLUMN datastore.dtype IS 'Number format of the stored keys.';
COMMENT ON COLUMN datastore.n_entries IS 'Entries: positions that a token follows.';
COMMENT ON COLUMN datastore.n_files IS 'Files they lie in.';
COMMENT ON COLUMN datastore.n_bytes IS 'Their length together, in bytes.';
COMMENT ON COLUMN datastore.sha256 IS 'SHA-256 over the digests of the files in order.';

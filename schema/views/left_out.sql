-- title:  What runs left out of what they could have read, and why
-- source: tables run and position, and those that the runs filled
-- grain:  run_id, what, reason
--
-- A row with 0 says that nothing was left out. Figures over one of these tables count again what they leave out themselves, as geva2021_fig4 does.
CREATE OR REPLACE VIEW left_out AS
WITH read_text AS (
    SELECT
        d.corpus_id,
        count(*) AS n_positions,
        count(p.next_token_id) AS n_followed,
        count(g.position_id) AS n_counted,
        count(*) - count(DISTINCT p.sequence_id) AS n_predicted
    FROM position AS p
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    INNER JOIN document AS d ON s.document_id = d.document_id
    LEFT JOIN ngram_prediction AS g ON p.position_id = g.position_id AND g.ngram_order = 3
    GROUP BY d.corpus_id
),

trigger_count AS (
    SELECT
        t.corpus_id,
        count(*) FILTER (t.rank = 1) AS n_keys,
        count(*) FILTER (t.rank = 1 AND p.next_token_id IS NULL) AS n_last
    FROM trigger AS t
    INNER JOIN position AS p ON t.position_id = p.position_id
    WHERE t.tail = 'max'
    GROUP BY t.corpus_id
),

removal_count AS (
    SELECT
        k.corpus_id,
        r.run_id,
        count(*) AS n_triggers,
        count(*) FILTER (m.rank IS NULL) AS n_short
    FROM (SELECT DISTINCT i.corpus_id, i.layer, i.neuron FROM removal AS i) AS k
    INNER JOIN run AS r ON k.corpus_id = r.corpus_id AND r.kind IN ('removal', 'paper')
    INNER JOIN trigger AS t
        ON
            k.corpus_id = t.corpus_id AND k.layer = t.layer AND k.neuron = t.neuron AND t.tail = 'max'
            AND t.rank <= coalesce((r.settings ->> 'triggers_per_key')::INTEGER, 50)
    LEFT JOIN removal AS m
        ON t.corpus_id = m.corpus_id AND t.layer = m.layer AND t.neuron = m.neuron AND t.rank = m.rank AND m.removed = 'first'
    GROUP BY k.corpus_id, r.run_id
),

bigram_count AS (
    SELECT
        b.corpus_id,
        sum(b.n) AS n
    FROM direct_path AS b
    GROUP BY b.corpus_id
),

entry_count AS (
    SELECT
        k.corpus_id,
        sum(k.n_entries) AS n
    FROM key_file AS k
    GROUP BY k.corpus_id
),

word_count AS (
    SELECT
        w.corpus_id,
        count(*) AS n
    FROM word AS w
    GROUP BY w.corpus_id
),

counted AS (
    SELECT
        r.run_id,
        'position' AS what,
        'at an index that the sweep skips' AS reason,
        t.n_positions - c.n_positions AS n_left_out,
        t.n_positions AS n_all
    FROM run AS r
    INNER JOIN swept_corpus AS c ON r.corpus_id = c.corpus_id
    INNER JOIN read_text AS t ON r.corpus_id = t.corpus_id
    WHERE r.kind = 'sweep'
    UNION ALL
    SELECT
        r.run_id,
        'position' AS what,
        'no token follows' AS reason,
        t.n_positions - t.n_followed AS n_left_out,
        t.n_positions AS n_all
    FROM run AS r
    INNER JOIN read_text AS t ON r.corpus_id = t.corpus_id
    WHERE r.kind = 'prediction'
    UNION ALL
    SELECT
        r.run_id,
        'position' AS what,
        'BOS, or no token follows' AS reason,
        t.n_positions - if(r.kind = 'ngram', t.n_counted, coalesce(b.n, 0)) AS n_left_out,
        t.n_positions AS n_all
    FROM run AS r
    INNER JOIN read_text AS t ON r.corpus_id = t.corpus_id
    LEFT JOIN bigram_count AS b ON r.corpus_id = b.corpus_id
    WHERE r.kind IN ('ngram', 'direct_path')
    UNION ALL
    SELECT
        r.run_id,
        'position' AS what,
        'at an index below --min-index, or no token follows' AS reason,
        t.n_positions - k.n AS n_left_out,
        t.n_positions AS n_all
    FROM run AS r
    INNER JOIN read_text AS t ON r.corpus_id = t.corpus_id
    INNER JOIN entry_count AS k ON r.corpus_id = k.corpus_id
    WHERE r.kind = 'keys'
    UNION ALL
    SELECT
        r.run_id,
        'key' AS what,
        'no token follows its top trigger' AS reason,
        t.n_last AS n_left_out,
        t.n_keys AS n_all
    FROM run AS r
    INNER JOIN trigger_count AS t ON r.corpus_id = t.corpus_id
    WHERE r.kind IN ('next_token_rank', 'paper')
    UNION ALL
    SELECT
        n.run_id,
        'trigger' AS what,
        'a prefix of one token' AS reason,
        n.n_short AS n_left_out,
        n.n_triggers AS n_all
    FROM removal_count AS n
    UNION ALL
    SELECT
        r.run_id,
        'position' AS what,
        'index 0, or not drawn' AS reason,
        t.n_positions - g.n_states AS n_left_out,
        t.n_positions AS n_all
    FROM run AS r
    INNER JOIN read_text AS t ON r.corpus_id = t.corpus_id
    INNER JOIN layer_geometry AS g ON r.corpus_id = g.corpus_id AND g.layer = 0 AND g.site = 'resid_post'
    WHERE r.kind = 'token_state'
    UNION ALL
    SELECT
        r.run_id,
        'prediction' AS what,
        'its sequence was not drawn' AS reason,
        t.n_predicted - l.n AS n_left_out,
        t.n_predicted AS n_all
    FROM run AS r
    INNER JOIN read_text AS t ON r.corpus_id = t.corpus_id
    INNER JOIN term_loss AS l ON r.corpus_id = l.corpus_id AND l.term = 'model'
    WHERE r.kind = 'term_loss'
    UNION ALL
    SELECT
        p.run_id,
        'word' AS what,
        p.task || ': at index 0, ends with no token, not drawn, or without such a label' AS reason,
        w.n - p.n_train - p.n_test AS n_left_out,
        w.n AS n_all
    FROM probe_task AS p
    INNER JOIN word_count AS w ON p.corpus_id = w.corpus_id
    UNION ALL
    SELECT
        t.run_id,
        'sentence' AS what,
        t.target || ': no whole tree, too long, or not read whole behind index 0' AS reason,
        t.n_left_out,
        t.n_left_out + t.n_train + t.n_test AS n_all
    FROM tree_task AS t
    UNION ALL
    SELECT
        w.run_id,
        'pair' AS what,
        u.reason,
        sum(u.n_left_out) AS n_left_out,
        sum(w.n_words + w.n_test + w.n_left_out) AS n_all
    FROM (
        SELECT *, n_left_out_undrawn + n_left_out_split + n_left_out_long + n_left_out_unread AS n_left_out
        FROM word_relation
        WHERE n_left_out_undrawn IS NOT NULL
    ) AS w
    CROSS JOIN
        LATERAL (
            VALUES
            ('its sentence was not drawn', w.n_left_out_undrawn),
            ('its sentence lies in several sequences', w.n_left_out_split),
            ('its sentence is too long', w.n_left_out_long),
            ('a word is at index 0, ends with no token, or shares one with the other', w.n_left_out_unread)
        ) AS u (reason, n_left_out)
    GROUP BY w.run_id, u.reason
)

SELECT
    c.run_id,
    r.kind,
    r.corpus_id,
    c.what,
    c.reason,
    (c.n_left_out)::BIGINT AS n_left_out,
    (c.n_all)::BIGINT AS n_all
FROM counted AS c
INNER JOIN run AS r ON c.run_id = r.run_id;
COMMENT ON VIEW left_out IS 'What each run left out of what it could have read, how much, and why; 0 where it left out nothing.';
COMMENT ON COLUMN left_out.run_id IS 'The run.';
COMMENT ON COLUMN left_out.kind IS 'The pass.';
COMMENT ON COLUMN left_out.corpus_id IS 'The corpus.';
COMMENT ON COLUMN left_out.what IS 'What is counted: position, prediction, key, trigger (of keys that are read again), word, sentence or pair of words.';
COMMENT ON COLUMN left_out.reason IS 'Why they are left out; of probes and trees, of which label or target.';
COMMENT ON COLUMN left_out.n_left_out IS 'How many.';
COMMENT ON COLUMN left_out.n_all IS 'Of how many.';

-- title:  Which labels a probe takes for which
-- source: table probe_prediction
-- grain:  run_id, label, predicted
-- n:      n_words
-- param:  task (text): pos, tag, relation, entity, token, next_token, frequency, index, starts_word or sentence_end
-- param:  layer (integer): a layer that was probed
-- param:  site (text, 'resid_post'): resid_post, or resid_pre of layer 0
-- param:  n (integer, 20): pairs of labels of each run, those of most words first
-- column: run_id: the run of the pass probe
-- column: label: what the words are said to be
-- column: predicted: what the probe says
-- column: n_words: words of the test
-- column: share: of all words of the test that have this label, in [0, 1]
-- column: mean_prob: mean probability that the probe gives what it says
-- column: example: one of these words, the one that the probe is surest of
-- column: example_word_id: its number
-- chart:  bar(label, n_words)
-- needs:  probe
CREATE OR REPLACE MACRO probe_confusion(task, layer, site := 'resid_post', n := 20) AS TABLE
WITH
said AS (
    SELECT
        p.run_id,
        p.label,
        p.predicted,
        count(*) AS n_words,
        avg(p.prob) AS mean_prob,
        arg_max(p.word_id, (p.prob, -p.word_id)) AS example_word_id
    FROM probe_prediction AS p
    WHERE p.task = task AND p.layer = layer AND p.site = site
    GROUP BY p.run_id, p.label, p.predicted
),

of_label AS (
    SELECT
        s.*,
        s.n_words / sum(s.n_words) OVER (PARTITION BY s.run_id, s.label) AS share
    FROM said AS s
),

confused AS (
    SELECT o.*
    FROM of_label AS o
    WHERE o.label <> o.predicted
    QUALIFY row_number() OVER (PARTITION BY o.run_id ORDER BY o.n_words DESC, o.label, o.predicted) <= n
)

SELECT
    c.run_id,
    c.label,
    c.predicted,
    c.n_words,
    c.share,
    c.mean_prob,
    substr(d.text, w.char_start + 1, w.char_end - w.char_start) AS example,
    c.example_word_id
FROM confused AS c
INNER JOIN probe_task AS t ON c.run_id = t.run_id AND t.task = task
INNER JOIN word AS w ON t.corpus_id = w.corpus_id AND c.example_word_id = w.word_id
INNER JOIN document AS d ON w.document_id = d.document_id
ORDER BY c.run_id, c.n_words DESC, c.label, c.predicted;

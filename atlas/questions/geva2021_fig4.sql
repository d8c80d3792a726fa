-- title:  Share of values whose top token follows their key's top trigger
-- source: Geva et al. 2021, section 4.2 and figure 4: agreement rate
-- grain:  layer
-- n:      n_keys
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: layer: transformer block, from 0
-- column: agreement_rate: share of keys whose value's argmax, raw (E·v), is the token after their top trigger, in [0, 1]
-- column: chance: what a random token of the vocabulary would give, 1/d_vocab
-- column: n_keys: keys counted
-- column: n_agreeing: of them agreeing
-- column: n_left_out: keys left out
-- column: n_first: keys counted whose top trigger is at index 0, the first of a sequence, where the states of most models are huge
-- column: agreement_rate_without_first: the same rate without those keys; null where there are no others
-- chart:  line(layer, agreement_rate)
--
-- The next token is the corpus token that follows the trigger (the authors' script reads the trigger's own last token).
-- Left out: keys whose top trigger ends its document, and keys that no text of the corpus switches on (largest coefficient not above 0).
CREATE OR REPLACE MACRO geva2021_fig4(corpus := NULL) AS TABLE
SELECT
    a.layer,
    avg(CAST(a.agrees AS INTEGER)) AS agreement_rate,
    1 / any_value(m.d_vocab) AS chance,
    count(a.agrees) AS n_keys,
    count(*) FILTER (a.agrees) AS n_agreeing,
    count(*) - count(a.agrees) AS n_left_out,
    count(a.agrees) FILTER (a.is_first) AS n_first,
    avg(CAST(a.agrees AS INTEGER)) FILTER (NOT a.is_first) AS agreement_rate_without_first
FROM key_agreement AS a
CROSS JOIN model AS m
WHERE a.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM neuron_statistics AS i), corpus := corpus) AS o)
GROUP BY a.layer
ORDER BY a.layer;

-- title:  Agreement of values with the token that follows, by how sure the value is
-- source: Geva et al. 2021, section 4.2 and figure 6
-- grain:  bin
-- n:      n_keys
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: bin: from 0, by rising maximum of softmax(E·v), raw
-- column: lower_edge: smallest max p of the bin, included
-- column: upper_edge: where the bin ends, excluded (1 belongs to the last bin)
-- column: n_keys: keys of all layers whose value's largest probability lies in the bin
-- column: agreement_rate: share of them that agree, in [0, 1]; null where there is none
-- chart:  line(lower_edge, agreement_rate)
--
-- Ten bins of equal width in log(max p), from 1/d_vocab, which no maximum is below, to 1: each is d_vocab^(1/10) times as wide as the one before.
-- Left out as in figure 4: keys whose top trigger ends its document, and keys that no text switches on.
CREATE OR REPLACE MACRO geva2021_fig6(corpus := NULL) AS TABLE
WITH
key_bin AS (
    SELECT
        a.agrees,
        -- rounding takes the ends of the scale past their bins
        greatest(0, least(9, floor(10 * (1 + ln(CAST(a.value_max_prob AS DOUBLE)) / ln(m.d_vocab))))) AS bin
    FROM key_agreement AS a
    CROSS JOIN model AS m
    WHERE
        a.agrees IS NOT NULL
        AND a.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM neuron_statistics AS i), corpus := corpus) AS o)
)

SELECT
    b.bin,
    pow(m.d_vocab, b.bin / 10 - 1) AS lower_edge,
    pow(m.d_vocab, (b.bin + 1) / 10 - 1) AS upper_edge,
    count(k.bin) AS n_keys,
    avg(CAST(k.agrees AS INTEGER)) AS agreement_rate
FROM range(10) AS b (bin)
CROSS JOIN model AS m
LEFT JOIN key_bin AS k ON b.bin = k.bin
GROUP BY b.bin, m.d_vocab
ORDER BY b.bin;

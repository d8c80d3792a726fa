-- title:  What the model knows that counting does not, and where counting wins
-- source: tables position_prediction and ngram_prediction; mixtures as in Khandelwal et al. 2020, figure 7
-- grain:  matched_order
-- n:      n_positions
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- param:  longest (integer, 5): n-grams of 3 or 5 tokens
-- param:  weight (double, 0.2): share of counting in the mixture of both probabilities, from 0 to 1
-- column: matched_order: 1 + tokens of the longest context that the counts have; null: all positions together
-- column: n_positions: positions that both predict; those at index 0 are left out
-- column: perplexity: of the model there
-- column: perplexity_ngram: of counting
-- column: perplexity_mixed: of the mixture
-- column: ngram_better: share of the positions where counting gives the token that follows the larger probability
-- column: mean_gain: mean of counting's surprisal minus the model's, in nats
-- column: model_wins_at: the five position_ids where the model gains most over counting; token_context shows them
-- column: counting_wins_at: the five where counting gains most over the model
-- chart:  bar(matched_order, mean_gain)
--
-- A weight that is chosen on the positions that it is judged by flatters the mixture.
CREATE OR REPLACE MACRO model_against_ngram(corpus := NULL, longest := 5, weight := 0.2) AS TABLE
WITH
counted AS (
    SELECT list(DISTINCT i.corpus_id) AS corpora
    FROM scored_position AS i
    WHERE i.surprisal_ngram3 IS NOT NULL OR i.surprisal_ngram5 IS NOT NULL
),

judged AS (
    SELECT
        p.position_id,
        g.matched_order,
        CAST(p.surprisal AS DOUBLE) AS surprisal,
        CAST(g.surprisal AS DOUBLE) AS counted
    FROM scored_position AS p
    INNER JOIN ngram_prediction AS g ON p.position_id = g.position_id
    WHERE
        g.ngram_order = longest AND p.index > 0
        AND p.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT c.corpora FROM counted AS c), corpus := corpus) AS o)
)

SELECT
    b.matched_order,
    count(*) AS n_positions,
    exp(avg(b.surprisal)) AS perplexity,
    exp(avg(b.counted)) AS perplexity_ngram,
    exp(avg(-ln((1 - weight) * exp(-b.surprisal) + weight * exp(-b.counted)))) AS perplexity_mixed,
    avg(CAST(b.counted < b.surprisal AS INTEGER)) AS ngram_better,
    avg(b.counted - b.surprisal) AS mean_gain,
    list(b.position_id ORDER BY b.counted - b.surprisal DESC, b.position_id)[:5] AS model_wins_at,
    list(b.position_id ORDER BY b.counted - b.surprisal, b.position_id)[:5] AS counting_wins_at
FROM judged AS b
GROUP BY GROUPING SETS ((b.matched_order), ())
HAVING count(*) > 0
ORDER BY b.matched_order NULLS FIRST;

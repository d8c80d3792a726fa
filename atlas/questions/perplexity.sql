-- title:  How well the model predicts each part of a corpus, beside counting
-- source: tables position_prediction and ngram_prediction; perplexity = exp(mean surprisal)
-- grain:  corpus_id, part
-- n:      n_positions
-- param:  corpus (integer, NULL): one corpus_id; NULL gives all, each by itself
-- param:  parts (text, 'split'): split, index (of the position in its sequence, in bins), or a key of document.metadata such as year
-- column: corpus_id: the corpus
-- column: part: its split, the indices from … to …, or the value of the key; null where documents have none
-- column: n_positions: positions that a token follows, those at index 0 left out: each counts once, whatever document it is of
-- column: mean_surprisal: mean negative log-probability of the tokens that follow, in nats
-- column: perplexity: its exponential
-- column: accuracy: share of the positions whose most probable token is the one that follows
-- column: mean_entropy: mean entropy of the predictions, in nats
-- column: perplexity_ngram3: the same positions predicted by counted 3-grams; null where any of them was not
-- column: perplexity_ngram5: by 5-grams
-- column: n_with_first: the positions with those at index 0, which see one token or BOS alone
-- column: perplexity_with_first: of these
-- chart:  bar(part, perplexity)
CREATE OR REPLACE MACRO perplexity(corpus := NULL, parts := 'split') AS TABLE
WITH
binned AS (
    SELECT
        p.*,
        CAST(2 ** floor(log2(greatest(p.index, 1))) AS BIGINT) AS lowest
    FROM scored_position AS p
    WHERE p.surprisal IS NOT NULL AND (corpus IS NULL OR p.corpus_id = corpus)
),

placed AS (
    SELECT
        p.*,
        CASE parts
            WHEN 'split' THEN c.split
            WHEN 'index' THEN if(p.lowest = 1, '1', CAST(p.lowest AS VARCHAR) || '-' || CAST(2 * p.lowest - 1 AS VARCHAR))
            ELSE d.metadata ->> parts
        END AS part
    FROM binned AS p
    INNER JOIN document AS d ON p.document_id = d.document_id
    INNER JOIN corpus AS c ON p.corpus_id = c.corpus_id
)

SELECT
    p.corpus_id,
    p.part,
    count(*) FILTER (p.index > 0) AS n_positions,
    avg(p.surprisal) FILTER (p.index > 0) AS mean_surprisal,
    exp(avg(p.surprisal) FILTER (p.index > 0)) AS perplexity,
    avg(CAST(p.next_token_rank = 1 AS INTEGER)) FILTER (p.index > 0) AS accuracy,
    avg(p.entropy) FILTER (p.index > 0) AS mean_entropy,
    if(bool_and(p.surprisal_ngram3 IS NOT NULL OR p.index = 0), exp(avg(p.surprisal_ngram3) FILTER (p.index > 0)), NULL) AS perplexity_ngram3,
    if(bool_and(p.surprisal_ngram5 IS NOT NULL OR p.index = 0), exp(avg(p.surprisal_ngram5) FILTER (p.index > 0)), NULL) AS perplexity_ngram5,
    count(*) AS n_with_first,
    exp(avg(p.surprisal)) AS perplexity_with_first
FROM placed AS p
GROUP BY p.corpus_id, p.part
ORDER BY p.corpus_id, if(parts = 'index', min(p.lowest), 0), p.part;

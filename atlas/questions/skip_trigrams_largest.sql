-- title:  The skip-trigrams that a head weighs most
-- source: Elhage et al. 2021, one-layer attention-only transformers: skip-trigrams source … destination → out
-- grain:  rank
-- n:      n_after
-- param:  layer (integer): transformer block, from 0; of later ones than 0 tokens are their states after the first block
-- param:  head (integer): attention head of the layer, from 0
-- param:  n (integer, 25): how many; an atlas keeps 100
-- param:  destination_tail (text, 'max'): max for destinations that look at the source more than at others, min for less
-- param:  out_tail (text, 'max'): max for tokens that it promotes, min for tokens that it suppresses
-- param:  corpus (integer, NULL): corpus_id of the text that they are counted in; NULL counts over all corpora
-- column: rank: from 1, by falling modulus of the score, exact over all triples of tokens
-- column: source: the token that is looked at
-- column: destination: the token that looks
-- column: out: the token that it promotes, or suppresses
-- column: score: destination_score times out_score: a pressure and no probability, since sources compete for a destination
-- column: destination_score: score of the destination for the source, over distances, less its mean over sources
-- column: out_score: what reading the source adds to the logit of out, less the mean over tokens, before the final norm's scale
-- column: kind: copy ([b] … [a] → [b]), split ([ab] … [a] → [b]) or other
-- column: n: how often out follows the destination where the source stands before it
-- column: n_after: how often any token does
-- column: lift: n / n_after, over the share of out among what follows the destination anywhere; null where it never does
-- chart:  bar(rank, score)
CREATE OR REPLACE MACRO skip_trigrams_largest(layer, head, n := 25, destination_tail := 'max', out_tail := 'max', corpus := NULL) AS TABLE
WITH
listed AS MATERIALIZED (
    SELECT t.*
    FROM skip_trigram AS t
    WHERE t.layer = layer AND t.head = head AND t.destination_tail = destination_tail AND t.out_tail = out_tail AND t.rank <= n
),

counted AS (
    SELECT c.*
    FROM skip_trigram_counts(
        (SELECT list(t.source_token_id ORDER BY t.rank) FROM listed AS t),
        (SELECT list(t.destination_token_id ORDER BY t.rank) FROM listed AS t),
        (SELECT list(t.out_token_id ORDER BY t.rank) FROM listed AS t),
        corpus := corpus
    ) AS c
)

SELECT
    t.rank,
    s.text AS source,
    d.text AS destination,
    o.text AS out,
    CAST(t.destination_score AS DOUBLE) * t.out_score AS score,
    t.destination_score,
    t.out_score,
    CASE
        WHEN trim(o.text) <> '' AND trim(s.text) = trim(o.text) THEN 'copy'
        WHEN ltrim(s.text) = ltrim(d.text) || o.text THEN 'split'
        ELSE 'other'
    END AS kind,
    c.n,
    c.n_after,
    c.lift
FROM listed AS t
INNER JOIN token AS s ON t.source_token_id = s.token_id
INNER JOIN token AS d ON t.destination_token_id = d.token_id
INNER JOIN token AS o ON t.out_token_id = o.token_id
LEFT JOIN counted AS c
    ON
        t.source_token_id = c.source_token_id
        AND t.destination_token_id = c.destination_token_id
        AND t.out_token_id = c.out_token_id
ORDER BY t.rank;

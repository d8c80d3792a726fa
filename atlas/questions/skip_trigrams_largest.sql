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
-- column: rank: from 1, by falling modulus of the score, exact over all triples of tokens that the text has as often as the ingest asked (--skip-trigram-seen)
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
    FROM skip_trigram_text AS t
    WHERE t.layer = layer AND t.head = head AND t.destination_tail = destination_tail AND t.out_tail = out_tail AND t.rank <= n
)

SELECT
    t.rank,
    t.source,
    t.destination,
    t.out,
    t.score,
    t.destination_score,
    t.out_score,
    t.kind,
    c.n,
    c.n_after,
    c.lift
FROM listed AS t
INNER JOIN
    skip_trigram_counts(
        (SELECT list(l.source_token_id ORDER BY l.rank) FROM listed AS l),
        (SELECT list(l.destination_token_id ORDER BY l.rank) FROM listed AS l),
        (SELECT list(l.out_token_id ORDER BY l.rank) FROM listed AS l),
        corpus := corpus
    ) AS c
    ON t.source_token_id = c.source_token_id AND t.destination_token_id = c.destination_token_id AND t.out_token_id = c.out_token_id
ORDER BY t.rank;

-- title:  The largest skip-trigrams of every head
-- source: Elhage et al. 2021, one-layer attention-only transformers: the table of skip-trigrams, and copying as what most heads do
-- grain:  layer, head, rank
-- n:      n_after
-- param:  n (integer, 3): how many of each head; an atlas keeps 100
-- param:  corpus (integer, NULL): corpus_id of the text that they are counted in; NULL counts over all corpora
-- column: layer: transformer block, from 0
-- column: head: attention head of the layer, from 0
-- column: rank: from 1, by falling score, exact over all triples of tokens that the text has as often as the ingest asked (--skip-trigram-seen)
-- column: source: the token that is looked at
-- column: destination: the token that looks
-- column: out: the token that it promotes
-- column: score: score of the destination for the source times what the source adds to the logit of out
-- column: copying_share: share of the head's 100 largest in which out is the source ([b] … [a] → [b]) or its rest ([ab] … [a] → [b]), in [0, 1]
-- column: n: how often out follows the destination where the source stands before it
-- column: n_after: how often any token does
-- column: lift: n / n_after, over the share of out among what follows the destination anywhere; null where it never does
-- chart:  bar(head, score)
CREATE OR REPLACE MACRO elhage2021_skip_trigrams(n := 3, corpus := NULL) AS TABLE
WITH
kept AS (
    SELECT
        t.*,
        avg(CAST(t.kind <> 'other' AS INTEGER)) OVER (PARTITION BY t.layer, t.head) AS copying_share
    FROM skip_trigram_text AS t
    WHERE t.destination_tail = 'max' AND t.out_tail = 'max'
),

listed AS MATERIALIZED (
    SELECT k.*
    FROM kept AS k
    WHERE k.rank <= n
)

SELECT
    t.layer,
    t.head,
    t.rank,
    t.source,
    t.destination,
    t.out,
    t.score,
    t.copying_share,
    c.n,
    c.n_after,
    c.lift
FROM listed AS t
INNER JOIN
    skip_trigram_counts(
        (SELECT list(l.source_token_id ORDER BY l.layer, l.head, l.rank) FROM listed AS l),
        (SELECT list(l.destination_token_id ORDER BY l.layer, l.head, l.rank) FROM listed AS l),
        (SELECT list(l.out_token_id ORDER BY l.layer, l.head, l.rank) FROM listed AS l),
        corpus := corpus
    ) AS c
    ON t.source_token_id = c.source_token_id AND t.destination_token_id = c.destination_token_id AND t.out_token_id = c.out_token_id
ORDER BY t.layer, t.head, t.rank;

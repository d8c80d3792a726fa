-- title:  The largest skip-trigrams of every head
-- source: Elhage et al. 2021, one-layer attention-only transformers: the table of skip-trigrams, and copying as what most heads do
-- grain:  layer, head, rank
-- n:      n_after
-- param:  n (integer, 3): how many sources of each head
-- param:  corpus (integer, NULL): corpus_id of the text that they are counted in; NULL counts over all corpora
-- column: layer: transformer block, from 0
-- column: head: attention head of the layer, from 0
-- column: rank: from 1, by falling score, of sources that the text has as often as the ingest asked (--skip-trigram-seen)
-- column: source: the token that is looked at
-- column: destination: one of the ten that look at it most
-- column: out: one of the ten that it promotes most: of those that follow the destination in the text as often, the two of the largest score
-- column: score: score of the destination for the source times what the source adds to the logit of out
-- column: copying_share: share of the head's 100 largest of all triples in which out is the source ([b] … [a] → [b]) or its rest ([ab] … [a] → [b]), in [0, 1]
-- column: n: how often out follows the destination where the source stands before it
-- column: n_after: how often any token does
-- column: lift: n / n_after, over the share of out among what follows the destination anywhere; null where it never does
-- chart:  bar(head, score)
--
-- The largest of all triples are of one source or two, and their outs follow their destinations nowhere: skip_trigrams_largest has them.
CREATE OR REPLACE MACRO elhage2021_skip_trigrams(n := 3, corpus := NULL) AS TABLE
WITH
asked AS (
    SELECT greatest(1, max(CAST(r.settings ->> 'seen' AS BIGINT))) AS least
    FROM run AS r
    WHERE r.kind = 'skip_trigram'
),

follows AS MATERIALIZED (
    SELECT
        b.token_id,
        b.next_token_id
    FROM bigram AS b
    WHERE corpus IS NULL OR b.corpus_id = corpus
    GROUP BY b.token_id, b.next_token_id
    HAVING sum(b.n) >= (SELECT a.least FROM asked AS a)
),

of_source AS (
    SELECT
        q.layer,
        q.head,
        q.source_token_id,
        q.token_id AS destination_token_id,
        o.token_id AS out_token_id,
        CAST(q.score AS DOUBLE) * o.score AS score
    FROM circuit_token AS q
    INNER JOIN circuit_source AS w ON q.layer = w.layer AND q.head = w.head AND q.circuit = w.circuit AND q.source_token_id = w.source_token_id
    INNER JOIN circuit_token AS o ON q.layer = o.layer AND q.head = o.head AND q.source_token_id = o.source_token_id
    SEMI JOIN follows AS f ON q.token_id = f.token_id AND o.token_id = f.next_token_id
    WHERE q.circuit = 'qk' AND o.circuit = 'ov' AND q.score > 0 AND o.score > 0 AND w.n_source >= (SELECT a.least FROM asked AS a)
    QUALIFY row_number() OVER (PARTITION BY q.layer, q.head, q.source_token_id ORDER BY CAST(q.score AS DOUBLE) * o.score DESC, q.rank, o.rank) = 1
),

listed AS MATERIALIZED (
    SELECT
        t.*,
        row_number() OVER (PARTITION BY t.layer, t.head ORDER BY t.score DESC, t.source_token_id) AS rank
    FROM of_source AS t
    QUALIFY rank <= n
),

copying AS (
    SELECT
        t.layer,
        t.head,
        avg(CAST(t.kind <> 'other' AS INTEGER)) AS share
    FROM skip_trigram_text AS t
    WHERE t.destination_tail = 'max' AND t.out_tail = 'max'
    GROUP BY t.layer, t.head
)

SELECT
    t.layer,
    t.head,
    t.rank,
    s.text AS source,
    d.text AS destination,
    o.text AS out,
    t.score,
    p.share AS copying_share,
    c.n,
    c.n_after,
    c.lift
FROM listed AS t
INNER JOIN copying AS p ON t.layer = p.layer AND t.head = p.head
INNER JOIN token AS s ON t.source_token_id = s.token_id
INNER JOIN token AS d ON t.destination_token_id = d.token_id
INNER JOIN token AS o ON t.out_token_id = o.token_id
INNER JOIN
    skip_trigram_counts(
        (SELECT list(l.source_token_id ORDER BY l.layer, l.head, l.rank) FROM listed AS l),
        (SELECT list(l.destination_token_id ORDER BY l.layer, l.head, l.rank) FROM listed AS l),
        (SELECT list(l.out_token_id ORDER BY l.layer, l.head, l.rank) FROM listed AS l),
        corpus := corpus
    ) AS c
    ON t.source_token_id = c.source_token_id AND t.destination_token_id = c.destination_token_id AND t.out_token_id = c.out_token_id
ORDER BY t.layer, t.head, t.rank;

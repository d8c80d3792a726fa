-- title:  The skip-trigrams of a head that begin with a token
-- source: Elhage et al. 2021, one-layer attention-only transformers: skip-trigrams source … destination → out
-- grain:  source_token_id, destination_token_id, out_token_id
-- n:      n_after
-- param:  layer (integer): transformer block, from 0; of later ones than 0 tokens are their states after the first block
-- param:  head (integer): attention head of the layer, from 0
-- param:  token (text): the source's exact text, its leading space optional
-- param:  n (integer, 10): how many of each spelling, up to the ten that are exact
-- param:  corpus (integer, NULL): corpus_id of the text that they are counted in; NULL counts over all corpora
-- column: source: the token that is looked at
-- column: rank: from 1, by falling score, of all triples that begin with the source
-- column: destination: a token that looks at it more than at others
-- column: out: a token that it promotes
-- column: score: destination_score times out_score: a pressure and no probability, since sources compete for a destination
-- column: destination_score: score of the destination for the source, over distances, less its mean over sources
-- column: out_score: what reading the source adds to the logit of out, less the mean over tokens, before the final norm's scale
-- column: destination_deviations: destination_score in standard deviations above the mean over all destinations of the source
-- column: out_deviations: out_score in standard deviations of all tokens
-- column: n: how often out follows the destination where the source stands before it
-- column: n_after: how often any token does
-- column: lift: n / n_after, over the share of out among what follows the destination anywhere; null where it never does
-- column: source_token_id: the token that is looked at
-- column: destination_token_id: the token that looks
-- column: out_token_id: the token that is promoted
-- chart:  bar(rank, score)
CREATE OR REPLACE MACRO skip_trigrams(layer, head, token, n := 10, corpus := NULL) AS TABLE
WITH
scored AS (
    SELECT
        t.*,
        k.text,
        (t.score - if(t.circuit = 'qk', w.mean, 0)) / nullif(w.std, 0) AS deviations
    FROM circuit_token AS t
    INNER JOIN circuit_source AS w
        ON t.layer = w.layer AND t.head = w.head AND t.circuit = w.circuit AND t.source_token_id = w.source_token_id
    INNER JOIN token AS s ON t.source_token_id = s.token_id
    INNER JOIN token AS k ON t.token_id = k.token_id
    WHERE t.layer = layer AND t.head = head AND t.score > 0 AND s.text IN (token, ' ' || token)
),

-- of ten destinations and ten outs the pairs that can be among the ten best
listed AS MATERIALIZED (
    SELECT
        f.source_token_id,
        f.token_id AS destination_token_id,
        g.token_id AS out_token_id,
        f.text AS destination,
        g.text AS out,
        f.score AS destination_score,
        g.score AS out_score,
        f.deviations AS destination_deviations,
        g.deviations AS out_deviations,
        CAST(f.score AS DOUBLE) * g.score AS score,
        row_number() OVER (PARTITION BY f.source_token_id ORDER BY CAST(f.score AS DOUBLE) * g.score DESC, f.rank, g.rank) AS triple_rank
    FROM scored AS f
    INNER JOIN scored AS g ON f.source_token_id = g.source_token_id AND f.rank * g.rank <= 10
    WHERE f.circuit = 'qk' AND g.circuit = 'ov'
    QUALIFY triple_rank <= least(n, 10)
)

SELECT
    s.text AS source,
    t.triple_rank AS rank,
    t.destination,
    t.out,
    t.score,
    t.destination_score,
    t.out_score,
    t.destination_deviations,
    t.out_deviations,
    c.n,
    c.n_after,
    c.lift,
    t.source_token_id,
    t.destination_token_id,
    t.out_token_id
FROM listed AS t
INNER JOIN token AS s ON t.source_token_id = s.token_id
INNER JOIN
    skip_trigram_counts(
        (SELECT list(l.source_token_id ORDER BY l.source_token_id, l.triple_rank) FROM listed AS l),
        (SELECT list(l.destination_token_id ORDER BY l.source_token_id, l.triple_rank) FROM listed AS l),
        (SELECT list(l.out_token_id ORDER BY l.source_token_id, l.triple_rank) FROM listed AS l),
        corpus := corpus
    ) AS c
    ON t.source_token_id = c.source_token_id AND t.destination_token_id = c.destination_token_id AND t.out_token_id = c.out_token_id
ORDER BY t.source_token_id, t.triple_rank;

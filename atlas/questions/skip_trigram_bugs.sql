-- title:  Skip-trigrams that come along because a head's scores factorise
-- source: Elhage et al. 2021, "skip-trigram bugs": keep … in → mind and keep … at → bay bring keep … in → bay and keep … at → mind
-- grain:  source_token_id, destination_token_id, out_token_id
-- n:      n_destination
-- param:  layer (integer): transformer block, from 0; of later ones than 0 tokens are their states after the first block
-- param:  head (integer): attention head of the layer, from 0
-- param:  n (integer, 25): how many
-- param:  corpus (integer, NULL): corpus_id of the text in which the token never follows; NULL takes all corpora together
-- column: source: the token that is looked at
-- column: destination: one of the ten that look at it most
-- column: out: one of the ten that it promotes most, which never follows that destination in the text
-- column: score: destination score times out score
-- column: meant: another of the ten destinations, the one of the highest score of those that the token does follow
-- column: meant_score: the score with that one
-- column: n_destination: how often any token follows the destination
-- column: n_meant: how often the token follows the other one
-- column: source_token_id: the token that is looked at
-- column: destination_token_id: the token that looks
-- column: out_token_id: the token that is promoted
-- chart:  bar(destination, score)
--
-- One table of where a source is looked for and one of what it promotes cannot say which goes with which.
CREATE OR REPLACE MACRO skip_trigram_bugs(layer, head, n := 25, corpus := NULL) AS TABLE
WITH
follows AS MATERIALIZED (
    SELECT
        b.token_id,
        b.next_token_id,
        CAST(sum(b.n) AS BIGINT) AS n
    FROM bigram AS b
    WHERE corpus IS NULL OR b.corpus_id = corpus
    GROUP BY b.token_id, b.next_token_id
),

followed AS (
    SELECT
        f.token_id,
        CAST(sum(f.n) AS BIGINT) AS n
    FROM follows AS f
    GROUP BY f.token_id
),

-- sources and destinations that the text does not hold tell nothing
triple AS (
    SELECT
        q.source_token_id,
        q.token_id AS destination_token_id,
        o.token_id AS out_token_id,
        CAST(q.score AS DOUBLE) * o.score AS score,
        d.n AS n_destination,
        coalesce(f.n, 0) AS n
    FROM circuit_token AS q
    INNER JOIN circuit_token AS o ON q.layer = o.layer AND q.head = o.head AND q.source_token_id = o.source_token_id
    INNER JOIN followed AS d ON q.token_id = d.token_id
    SEMI JOIN followed AS s ON q.source_token_id = s.token_id
    LEFT JOIN follows AS f ON q.token_id = f.token_id AND o.token_id = f.next_token_id
    WHERE q.layer = layer AND q.head = head AND q.circuit = 'qk' AND o.circuit = 'ov' AND q.score > 0 AND o.score > 0
),

meant AS (
    SELECT
        t.source_token_id,
        t.out_token_id,
        arg_max(t.destination_token_id, (t.score, -t.destination_token_id)) AS destination_token_id,
        max(t.score) AS score,
        arg_max(t.n, (t.score, -t.destination_token_id)) AS n
    FROM triple AS t
    WHERE t.n > 0
    GROUP BY t.source_token_id, t.out_token_id
)

SELECT
    s.text AS source,
    d.text AS destination,
    o.text AS out,
    t.score,
    e.text AS meant,
    m.score AS meant_score,
    t.n_destination,
    m.n AS n_meant,
    t.source_token_id,
    t.destination_token_id,
    t.out_token_id
FROM triple AS t
INNER JOIN meant AS m ON t.source_token_id = m.source_token_id AND t.out_token_id = m.out_token_id
INNER JOIN token AS s ON t.source_token_id = s.token_id
INNER JOIN token AS d ON t.destination_token_id = d.token_id
INNER JOIN token AS o ON t.out_token_id = o.token_id
INNER JOIN token AS e ON m.destination_token_id = e.token_id
WHERE t.n = 0
ORDER BY t.score DESC, t.source_token_id, t.destination_token_id, t.out_token_id
LIMIT n;

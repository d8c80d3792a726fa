-- title:  A word is to another as a third is to what, by the model's own vectors
-- source: Mikolov et al. 2013, "Linguistic Regularities in Continuous Space Word Representations"; Levy and Goldberg 2014, 3CosAdd and 3CosMul
-- grain:  rank
-- param:  a (text): a is to b as c is to what; a token's exact text, its leading space optional
-- param:  b (text): likewise
-- param:  c (text): likewise
-- param:  space (text, 'input'): input for what tokens bring to the stream, output for what predicts them; a model with one matrix has input alone
-- param:  method (text, 'add_centred'): add_centred, 3CosAdd of vectors less their mean; add, as they are; multiply, 3CosMul of vectors as they are
-- param:  n (integer, 10): how many
-- column: rank: from 1, by falling score; ties go to the lower token_id
-- column: token: a token that is none of the three, in any spelling
-- column: score: of both adds its cosine with b less that with a plus that with c; of multiply b·c / (a + 0.001), each cosine x as (x + 1)/2
-- column: token_id: the token
-- chart:  bar(rank, score)
--
-- A word stands for its token with a leading space, and without one where that is none. A word of several tokens has no vector, and no answer.
CREATE OR REPLACE MACRO analogy(a, b, c, space := 'input', method := 'add_centred', n := 10) AS TABLE
WITH
asked AS (
    SELECT
        u.place,
        u.word,
        v.vector
    FROM (SELECT unnest([1, 2, 3]) AS place, unnest([a, b, c]) AS word) AS u
    INNER JOIN token AS k ON k.text IN (u.word, ' ' || u.word)
    INNER JOIN token_vector AS v ON k.token_id = v.token_id AND v.space = space
    QUALIFY row_number() OVER (PARTITION BY u.place ORDER BY length(k.text) DESC, k.token_id) = 1
),

-- no row where one of the three has no vector
query AS MATERIALIZED (
    SELECT
        any_value(q.vector) FILTER (q.place = 1) AS a,
        any_value(q.vector) FILTER (q.place = 2) AS b,
        any_value(q.vector) FILTER (q.place = 3) AS c,
        any_value(s.mean) AS mean,
        CAST(method = 'add_centred' AS DOUBLE) AS g,
        list(lower(trim(q.word))) AS words
    FROM asked AS q
    INNER JOIN token_space AS s ON s.space = space
    HAVING count(*) = 3
),

-- (x - g·mean)·(y - g·mean) is x·y less what x and y have along the mean: g times the product with it less half of its square
known AS MATERIALIZED (
    SELECT
        q.*,
        array_inner_product(q.mean, q.mean) / 2 AS half,
        q.g * (array_inner_product(q.a, q.mean) - half) AS own_a,
        q.g * (array_inner_product(q.b, q.mean) - half) AS own_b,
        q.g * (array_inner_product(q.c, q.mean) - half) AS own_c,
        sqrt(array_inner_product(q.a, q.a) - 2 * own_a) AS length_a,
        sqrt(array_inner_product(q.b, q.b) - 2 * own_b) AS length_b,
        sqrt(array_inner_product(q.c, q.c) - 2 * own_c) AS length_c
    FROM query AS q
),

cosines AS (
    SELECT
        v.token_id,
        q.words,
        q.g * (array_inner_product(v.vector, q.mean) - q.half) AS own,
        nullif(sqrt(greatest(array_inner_product(v.vector, v.vector) - 2 * own, 0)), 0) AS length,
        (array_inner_product(v.vector, q.a) - own - q.own_a) / (length * q.length_a) AS with_a,
        (array_inner_product(v.vector, q.b) - own - q.own_b) / (length * q.length_b) AS with_b,
        (array_inner_product(v.vector, q.c) - own - q.own_c) / (length * q.length_c) AS with_c
    FROM token_vector AS v
    CROSS JOIN known AS q
    WHERE v.space = space
),

scored AS (
    SELECT
        c.token_id,
        k.text AS token,
        if(
            method = 'multiply', (c.with_b + 1) / 2 * (c.with_c + 1) / 2 / ((c.with_a + 1) / 2 + CAST(0.001 AS DOUBLE)), c.with_b - c.with_a + c.with_c
        ) AS score
    FROM cosines AS c
    INNER JOIN token AS k ON c.token_id = k.token_id
    WHERE NOT list_contains(c.words, lower(trim(k.text)))
)

SELECT
    row_number() OVER (ORDER BY s.score DESC NULLS LAST, s.token_id) AS rank,
    s.token,
    s.score,
    s.token_id
FROM scored AS s
ORDER BY rank
LIMIT n;

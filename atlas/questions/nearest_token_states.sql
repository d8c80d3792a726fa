-- title:  The words whose mean state lies near that of a word
-- source: Ethayarajh 2019; tables token_state and token
-- grain:  token_id, rank
-- param:  token (text): the token's exact text, its leading space optional
-- param:  layer (integer, NULL): one of the four layers that an atlas keeps, from 0; NULL takes the last
-- param:  n (integer, 20): how many
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the first that has such states
-- column: token: the vocabulary's text of the token asked for
-- column: rank: from 1, by falling cosine; ties go to the lower token_id
-- column: neighbour: a frequent token
-- column: cosine: of both mean states of resid_post less the mean of all frequent tokens' there, in [-1, 1]
-- column: raw_cosine: of both mean states as they are, in [-1, 1]
-- column: n_positions: occurrences of the neighbour that its mean is over
-- column: token_id: the token asked for
-- column: neighbour_token_id: the neighbour
-- column: corpus_id: the corpus they occur in
-- chart:  bar(rank, cosine)
CREATE OR REPLACE MACRO nearest_token_states(token, layer := NULL, n := 20, corpus := NULL) AS TABLE
WITH
here AS MATERIALIZED (
    SELECT
        s.corpus_id,
        s.token_id,
        s.n_positions,
        CAST(s.vector AS FLOAT[]) AS vector
    FROM token_state AS s
    WHERE
        s.layer = coalesce(layer, (SELECT max(t.layer) FROM token_state AS t))
        AND s.corpus_id = coalesce(corpus, (SELECT min(t.corpus_id) FROM token_state AS t))
),

centre AS (
    SELECT list(c.mean ORDER BY c.dimension) AS mean
    FROM (
        SELECT
            u.dimension,
            avg(u.x) AS mean
        FROM (
            SELECT
                unnest(h.vector) AS x,
                generate_subscripts(h.vector, 1) AS dimension
            FROM here AS h
        ) AS u
        GROUP BY u.dimension
    ) AS c
),

centred AS MATERIALIZED (
    SELECT
        h.*,
        list_transform(list_zip(h.vector, c.mean), LAMBDA pair: pair[1] - pair[2]) AS off_centre
    FROM here AS h
    CROSS JOIN centre AS c
)

SELECT
    k.text AS token,
    row_number() OVER (PARTITION BY a.token_id ORDER BY list_cosine_similarity(a.off_centre, b.off_centre) DESC, b.token_id) AS rank,
    w.text AS neighbour,
    list_cosine_similarity(a.off_centre, b.off_centre) AS cosine,
    list_cosine_similarity(a.vector, b.vector) AS raw_cosine,
    b.n_positions,
    a.token_id,
    b.token_id AS neighbour_token_id,
    a.corpus_id
FROM centred AS a
INNER JOIN token AS k ON a.token_id = k.token_id
INNER JOIN centred AS b ON a.token_id <> b.token_id
INNER JOIN token AS w ON b.token_id = w.token_id
WHERE k.text = token OR k.text = ' ' || token
QUALIFY rank <= n
ORDER BY k.text, a.token_id, rank;

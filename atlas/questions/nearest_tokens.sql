-- title:  The words near a word, by the model's own vectors
-- source: Mikolov et al. 2013, similarity by cosine; Mu and Viswanath 2018: the mean taken off; tables token_neighbour and token_space
-- grain:  token_id, rank
-- param:  token (text): the token's exact text, its leading space optional
-- param:  space (text, 'input'): input for what tokens bring to the stream, output for what predicts them; a model with one matrix has input alone
-- param:  n (integer, 20): how many, at most the 20 that an atlas keeps
-- column: token: the vocabulary's text of the token asked for; a spelling with and one without a space are two
-- column: rank: from 1, by falling cosine
-- column: neighbour: the token near it
-- column: cosine: of both vectors less the mean of all, in [-1, 1]
-- column: raw_cosine: of both vectors as they are, in [-1, 1]
-- column: token_id: the token asked for
-- column: neighbour_token_id: the token near it
-- chart:  bar(rank, cosine)
CREATE OR REPLACE MACRO nearest_tokens(token, space := 'input', n := 20) AS TABLE
SELECT
    k.text AS token,
    b.rank,
    w.text AS neighbour,
    b.cosine,
    b.raw_cosine,
    b.token_id,
    b.neighbour_token_id
FROM token_neighbour AS b
INNER JOIN token AS k ON b.token_id = k.token_id
INNER JOIN token AS w ON b.neighbour_token_id = w.token_id
WHERE b.space = space AND (k.text = token OR k.text = ' ' || token) AND b.rank <= n
ORDER BY k.text, k.token_id, b.rank;

-- title:  Where does retrieval help most, or harm most
-- source: Khandelwal et al. 2020, section 6 and figure 6
-- grain:  position_id
-- param:  retrieval (integer): retrieval_id; knn_result() lists them
-- param:  n (integer, 20): how many
-- param:  worst (text, 'no'): yes takes those that it harms most
-- column: position_id: the query; knn_neighbours has its neighbours
-- column: gain: the model's surprisal minus the mixture's, in nats
-- column: text_before: at most 80 characters up to the query
-- column: next_token: the token that follows
-- column: model_prob: the model's probability of it, in [0, 1]
-- column: knn_prob: the neighbours'
-- column: is_copy: whether the query is a near-copy: its text, nearly word for word, is in the store
-- column: knn_top_token: the neighbours' most probable token
-- column: top_token: the model's
-- column: document: name of the query's document
-- column: index: its place in its sequence, from 0
-- column: part: test, scored once; tune, chosen on
-- chart:  bar(text_before, gain)
CREATE OR REPLACE MACRO retrievals.knn_gains(retrieval, n := 20, worst := 'no') AS TABLE
WITH
judged AS (
    SELECT
        s.*,
        s.surprisal - s.mixed_surprisal AS gain,
        if(worst = 'yes', s.mixed_surprisal - s.surprisal, s.surprisal - s.mixed_surprisal) AS wanted
    FROM retrievals.scored_query AS s
    WHERE s.retrieval_id = retrieval
    QUALIFY row_number() OVER (ORDER BY wanted DESC, s.position_id) <= n
)

SELECT
    j.position_id,
    j.gain,
    x.text_before,
    f.text AS next_token,
    exp(-j.surprisal) AS model_prob,
    j.knn_prob,
    j.is_copy,
    k.text AS knn_top_token,
    t.text AS top_token,
    x.document,
    j.index,
    j.part
FROM judged AS j
INNER JOIN retrievals.position_text AS x ON j.position_id = x.position_id
INNER JOIN retrievals.token_text AS f ON j.next_token_id = f.token_id
INNER JOIN retrievals.token_text AS k ON j.knn_top_token_id = k.token_id
INNER JOIN retrievals.token_text AS t ON j.top_token_id = t.token_id
ORDER BY j.wanted DESC, j.position_id;

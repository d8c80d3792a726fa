-- title:  How surprising each token of a passage was, to the model and to counting
-- source: tables position_prediction and ngram_prediction
-- grain:  position_id
-- param:  at_position (bigint): any position_id
-- param:  width (integer, 48): tokens on each side, as far as the document goes
-- column: position_id: the token occurrence; BOS is left out
-- column: token: characters of the token there; the vocabulary's text of a token with none
-- column: is_asked: whether it is the position asked for
-- column: surprisal: its own negative log-probability, from the position before it, in nats; null of a document's first token
-- column: entropy: of the prediction that it was judged by, in nats
-- column: rank: its rank there, from 1
-- column: predicted: the token that was most probable there
-- column: predicted_prob: its probability
-- column: surprisal_ngram3: its surprisal by counted 3-grams; null where nothing was counted
-- column: surprisal_ngram5: by 5-grams
-- column: n_read: tokens that the model had read before it: few where a sequence begins
-- chart:  tokens(token, surprisal)
--
-- What a position predicts is said of the token behind it, also where a sequence is cut between the two: of two predictions of it the one that has read more.
CREATE OR REPLACE MACRO reading(at_position, width := 48) AS TABLE
WITH
asked AS (
    SELECT s.document_id
    FROM position AS p
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    WHERE p.position_id = at_position
),

near AS MATERIALIZED (
    SELECT
        p.*,
        s.document_id,
        k.text
    FROM position AS p
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    INNER JOIN asked AS a ON s.document_id = a.document_id
    INNER JOIN token AS k ON p.token_id = k.token_id
    -- with the token before the first that is shown, and a BOS between the two
    WHERE
        p.position_id BETWEEN at_position - width - 2 AND at_position + width
        AND NOT (p.index = 0 AND p.char_start = p.char_end AND k.is_special)
),

shown AS (
    SELECT
        i.*,
        lag(i.position_id) OVER (ORDER BY i.position_id) AS judged_at,
        lag(i.index) OVER (ORDER BY i.position_id) + 1 AS n_read
    FROM near AS i
    QUALIFY i.position_id >= at_position - width
),

excerpt AS MATERIALIZED (
    SELECT
        e.char_start,
        substr(d.text, e.char_start + 1, e.char_end - e.char_start) AS text
    FROM (
        SELECT
            i.document_id,
            min(i.char_start) AS char_start,
            max(i.char_end) AS char_end
        FROM near AS i
        GROUP BY i.document_id
    ) AS e
    INNER JOIN document AS d ON e.document_id = d.document_id
)

SELECT
    i.position_id,
    if(i.char_end > i.char_start, substr(e.text, i.char_start - e.char_start + 1, i.char_end - i.char_start), i.text) AS token,
    i.position_id = at_position AS is_asked,
    p.surprisal,
    p.entropy,
    p.next_token_rank AS rank,
    t.text AS predicted,
    p.top_prob AS predicted_prob,
    g3.surprisal AS surprisal_ngram3,
    g5.surprisal AS surprisal_ngram5,
    i.n_read
FROM shown AS i
CROSS JOIN excerpt AS e
LEFT JOIN position_prediction AS p ON i.judged_at = p.position_id
LEFT JOIN token AS t ON p.top_token_id = t.token_id
LEFT JOIN ngram_prediction AS g3 ON i.judged_at = g3.position_id AND g3.ngram_order = 3
LEFT JOIN ngram_prediction AS g5 ON i.judged_at = g5.position_id AND g5.ngram_order = 5
ORDER BY i.position_id;

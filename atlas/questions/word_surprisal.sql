-- title:  How surprising each word was
-- source: table position_prediction; words as in Pimentel and Meister 2024, "How to Compute the Probability of a Word"
-- grain:  document_id, word
-- param:  corpus (integer): corpus_id
-- param:  document (text, NULL): name of one document; NULL takes all
-- column: document_id: the document
-- column: word: number of the word in it, from 0; words are cut at white space
-- column: text: its characters; white space alone where the document ends with some, which is a row of its own
-- column: surprisal: sum over its tokens of their negative log-probabilities, in nats; null of a document's first word; rows add up to the text
-- column: word_surprisal: the same where the white space that ends it is its own, and not the next token's; null likewise
-- column: n_tokens: tokens it consists of, those of white space alone before it too
-- column: n_read: tokens that the model had read before its first: few where a sequence begins; null of a document's first word
-- column: char_start: offset of its first character in document.text, from 0
-- column: char_end: offset after its last
-- column: first_position_id: its first token
-- column: last_position_id: its last token
-- chart:  tokens(text, word_surprisal)
--
-- A token with a leading space says that a word begins, and so that the one before it has ended. word_surprisal takes -ln of the probability that behind
-- the word another begins or the text ends, and gives back that of its own leading space. Nothing is taken where a token ends with white space itself.
-- A token of white space alone belongs to the word that follows it, as white space does in tokens that join the two.
CREATE OR REPLACE MACRO word_surprisal(corpus, document := NULL) AS TABLE
WITH
spoken AS (
    SELECT
        d.document_id,
        i.position_id,
        i.index,
        i.char_start,
        i.char_end,
        regexp_matches(k.text, '^[\x09-\x0d\x1c-\x20\x{85}\p{Z}]') AS leads,
        regexp_matches(k.text, '[\x09-\x0d\x1c-\x20\x{85}\p{Z}]$') AS trails,
        regexp_full_match(k.text, '[\x09-\x0d\x1c-\x20\x{85}\p{Z}]*') AS is_blank,
        p.surprisal,
        -ln(greatest(p.starts_word_prob, 1e-38)) AS boundary
    FROM position AS i
    INNER JOIN sequence AS s ON i.sequence_id = s.sequence_id
    INNER JOIN document AS d ON s.document_id = d.document_id
    INNER JOIN token AS k ON i.token_id = k.token_id
    INNER JOIN position_prediction AS p ON i.position_id = p.position_id
    WHERE
        d.corpus_id = corpus AND (document IS NULL OR d.name = document)
        AND NOT (i.index = 0 AND i.char_start = i.char_end AND k.is_special)
),

judged AS (
    SELECT
        t.*,
        lag(t.surprisal) OVER one AS own,
        lag(t.index) OVER one + 1 AS n_read,
        if(t.leads AND NOT coalesce(lag(t.trails) OVER one, FALSE), lag(t.boundary) OVER one, 0) AS before,
        if(t.trails, 0, t.boundary) AS after,
        CAST(if(lag(t.is_blank) OVER one, FALSE, t.leads OR coalesce(lag(t.trails) OVER one, TRUE)) AS INTEGER) AS begins
    FROM spoken AS t
    WINDOW one AS (PARTITION BY t.document_id ORDER BY t.position_id)
),

numbered AS (
    SELECT
        j.*,
        sum(j.begins) OVER (PARTITION BY j.document_id ORDER BY j.position_id) AS number
    FROM judged AS j
),

of_word AS (
    SELECT
        n.document_id,
        n.number,
        min(n.position_id) AS first_position_id,
        max(n.position_id) AS last_position_id,
        min(n.char_start) AS first_char,
        max(n.char_end) AS char_end,
        count(*) AS n_tokens,
        if(count(n.own) = count(*), sum(n.own), NULL) AS surprisal,
        arg_min(n.before, n.position_id) AS before,
        arg_max(n.after, n.position_id) AS after,
        arg_min(n.n_read, n.position_id) AS n_read,
        bool_and(n.is_blank) AS is_blank
    FROM numbered AS n
    GROUP BY n.document_id, n.number
),

cut AS (
    SELECT
        w.*,
        substr(d.text, w.first_char + 1, w.char_end - w.first_char) AS piece,
        if(w.is_blank, '', '^[\x09-\x0d\x1c-\x20\x{85}\p{Z}]+') AS before_it,
        if(w.is_blank, '', '[\x09-\x0d\x1c-\x20\x{85}\p{Z}]+$') AS behind_it
    FROM of_word AS w
    INNER JOIN document AS d ON w.document_id = d.document_id
)

SELECT
    c.document_id,
    row_number() OVER (PARTITION BY c.document_id ORDER BY c.first_position_id) - 1 AS word,
    regexp_replace(regexp_replace(c.piece, c.before_it, ''), c.behind_it, '') AS text,
    c.surprisal,
    c.surprisal + c.after - c.before AS word_surprisal,
    c.n_tokens,
    c.n_read,
    c.first_char + length(c.piece) - length(regexp_replace(c.piece, c.before_it, '')) AS char_start,
    c.char_end - length(c.piece) + length(regexp_replace(c.piece, c.behind_it, '')) AS char_end,
    c.first_position_id,
    c.last_position_id
FROM cut AS c
ORDER BY c.document_id, c.first_position_id;

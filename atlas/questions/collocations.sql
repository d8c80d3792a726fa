-- title:  Which words keep a word's company
-- source: Church and Hanks 1990, mutual information of words; positive PMI in a window of 5, from table position alone
-- grain:  token_id, rank
-- n:      n_together
-- param:  token (text): the token's exact text, its leading space optional
-- param:  n (integer, 25): how many
-- param:  corpus (integer, NULL): one corpus_id; NULL counts over all corpora
-- param:  min_pairs (integer, 5): together at least so often: what is rare has a large PMI by chance
-- column: token: the vocabulary's text of the token asked for
-- column: rank: from 1, by falling ppmi; ties go to the lower token_id
-- column: companion: a token within 5 tokens of it, on either side, in the same sequence
-- column: ppmi: ln p(both) / (p(token)·p(companion)) over the pairs of places within 5 tokens of each other, in nats; 0 where that is negative
-- column: n_together: such pairs of the two
-- column: n_companion: such pairs that the companion is in, on one side
-- column: token_id: the token asked for
-- column: companion_id: the companion
-- chart:  bar(rank, ppmi)
--
-- Control tokens, such as BOS, count for nothing.
CREATE OR REPLACE MACRO collocations(token, n := 25, corpus := NULL, min_pairs := 5) AS TABLE
WITH
asked AS (
    SELECT
        k.token_id,
        k.text
    FROM token AS k
    WHERE k.text = token OR k.text = ' ' || token
),

place AS (
    SELECT
        p.sequence_id,
        p.index,
        p.token_id,
        -- neighbours within the window: of a sequence's other end there may be fewer
        count(*) OVER (PARTITION BY p.sequence_id ORDER BY p.index RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING) - 1 AS n_near
    FROM position AS p
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    INNER JOIN document AS d ON s.document_id = d.document_id
    INNER JOIN token AS k ON p.token_id = k.token_id
    WHERE NOT k.is_special AND (corpus IS NULL OR d.corpus_id = corpus)
),

single AS MATERIALIZED (
    SELECT
        p.token_id,
        CAST(sum(p.n_near) AS BIGINT) AS n_pairs,
        sum(sum(p.n_near)) OVER () AS n_all
    FROM place AS p
    GROUP BY p.token_id
),

together AS (
    SELECT
        a.token_id,
        w.token_id AS companion_id,
        count(*) AS n_together
    FROM place AS a
    INNER JOIN place AS w ON a.sequence_id = w.sequence_id AND w.index BETWEEN a.index - 5 AND a.index + 5 AND a.index <> w.index
    WHERE a.token_id IN (SELECT t.token_id FROM asked AS t)
    GROUP BY a.token_id, w.token_id
    HAVING count(*) >= min_pairs
),

scored AS (
    SELECT
        t.*,
        c.n_pairs AS n_companion,
        greatest(0, ln(CAST(t.n_together AS DOUBLE) * c.n_all / (CAST(o.n_pairs AS DOUBLE) * c.n_pairs))) AS ppmi
    FROM together AS t
    INNER JOIN single AS o ON t.token_id = o.token_id
    INNER JOIN single AS c ON t.companion_id = c.token_id
)

SELECT
    k.text AS token,
    row_number() OVER (PARTITION BY s.token_id ORDER BY s.ppmi DESC, s.companion_id) AS rank,
    w.text AS companion,
    s.ppmi,
    s.n_together,
    s.n_companion,
    s.token_id,
    s.companion_id
FROM scored AS s
INNER JOIN token AS k ON s.token_id = k.token_id
INNER JOIN token AS w ON s.companion_id = w.token_id
QUALIFY rank <= n
ORDER BY k.text, s.token_id, rank;

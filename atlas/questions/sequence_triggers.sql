-- title:  Texts that trigger a key most, one per sequence
-- source: Geva et al. 2021, section 3: the authors' released code keeps at most one prefix of a sentence
-- grain:  rank
-- param:  layer (integer): transformer block, from 0
-- param:  neuron (integer): FFN hidden unit of the layer, from 0
-- param:  n (integer, 25): how many, at most as many as the stored triggers lie in different sequences
-- param:  corpus (integer, NULL): one corpus_id; NULL ranks over all corpora
-- param:  tail (text, 'max'): max for the largest coefficients, min for the smallest
-- column: rank: from 1, strongest first; ties go to the smaller position_id
-- column: coefficient: m_i, signed, no unit
-- column: text_before: at most 80 characters that the model had read before the token
-- column: token: characters of the token where the coefficient was read
-- column: text_after: at most 40 characters that the model had not read
-- column: next_token: the corpus token that follows; null where the document ends
-- column: n_folded: other stored triggers of the same sequence, which this one stands for
-- column: document: name of the document
-- column: metadata: what the corpus says of the document, JSON
-- column: corpus_id: the corpus it lies in
-- column: sequence_id: the sequence
-- column: position_id: the token occurrence
-- column: index: place in the sequence, from 0
-- chart:  tokens(token, coefficient)
--
-- A sequence is a sentence only where the corpus was cut by sentence (`--cut sentences`); then this is the authors' list.
-- All k stored triggers are folded before the first n are taken. Over several corpora the ranking ends with the k that one corpus kept,
-- as in `top_triggers`.
CREATE OR REPLACE MACRO sequence_triggers(layer, neuron, n := 25, corpus := NULL, tail := 'max') AS TABLE
WITH
stored AS (
    SELECT
        t.position_id,
        t.coefficient,
        p.sequence_id,
        row_number() OVER (ORDER BY if(tail = 'max', -t.coefficient, t.coefficient), t.position_id) AS overall_rank,
        max(t.rank) OVER () AS k
    FROM trigger AS t
    INNER JOIN position AS p ON t.position_id = p.position_id
    WHERE t.layer = layer AND t.neuron = neuron AND t.tail = tail AND (corpus IS NULL OR t.corpus_id = corpus)
),

best AS MATERIALIZED (
    SELECT
        s.sequence_id,
        arg_min(s.position_id, s.overall_rank) AS position_id,
        arg_min(s.coefficient, s.overall_rank) AS coefficient,
        count(*) - 1 AS n_folded,
        row_number() OVER (ORDER BY min(s.overall_rank)) AS sequence_rank
    FROM stored AS s
    WHERE s.overall_rank <= s.k
    GROUP BY s.sequence_id
    QUALIFY sequence_rank <= n
)

SELECT
    b.sequence_rank AS rank,
    b.coefficient,
    c.text_before,
    c.token,
    c.text_after,
    c.next_token,
    b.n_folded,
    c.document,
    c.metadata,
    c.corpus_id,
    b.sequence_id,
    b.position_id,
    c.index
FROM best AS b
INNER JOIN token_context((SELECT list(i.position_id) FROM best AS i)) AS c ON b.position_id = c.position_id
ORDER BY b.sequence_rank;

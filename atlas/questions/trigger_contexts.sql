-- title:  Triggers of a key token by token, texts that repeat folded
-- source: Geva et al. 2021, section 3; the coefficient of every token that the atlas holds it for: up to 16 before each of a key's first 20 triggers
-- grain:  rank
-- param:  layer (integer): transformer block, from 0
-- param:  neuron (integer): FFN hidden unit of the layer, from 0
-- param:  tail (text, 'max'): max for the largest coefficients, min for the smallest
-- param:  n (integer, 25): how many, at most as many different texts as ingest kept per key
-- param:  width (integer, 16): tokens shown before the trigger; half as many after it
-- param:  corpus (integer, NULL): one corpus_id; NULL ranks over all corpora
-- param:  per_sequence (integer, NULL): of one sequence at most so many, the strongest; NULL takes all
-- column: rank: from 1 among the folded, strongest first; ties go to the smaller position_id
-- column: coefficient: m_i at the trigger, signed, no unit
-- column: n_folded: other triggers with the same text up to and including their token, which this one stands for
-- column: tokens: characters of each token shown, in order; the vocabulary's text of a token with none
-- column: coefficients: m_i of this neuron at each of them, before the trigger to 1/254 of the largest there; null where the atlas does not hold it
-- column: peak: place of the trigger in tokens, from 0
-- column: next_token: the corpus token that follows the trigger; null where the document ends
-- column: document: name of the document
-- column: metadata: what the corpus says of the document, JSON
-- column: corpus_id: the corpus it lies in
-- column: sequence_id: the sequence
-- column: position_id: the token occurrence
-- column: index: place in the sequence, from 0
-- column: n_in_sequence: the key's stored triggers of the tail in this sequence, this one included
-- chart:  tokens(tokens, coefficients)
--
-- All k stored triggers, or those that per_sequence leaves, are folded before the first n are taken. Over several corpora the ranking ends
-- with the k that one corpus kept, as in `top_triggers`. Each window is cut from its document once, because finding a character takes longer the further on
-- it stands.
CREATE OR REPLACE MACRO trigger_contexts(layer, neuron, tail := 'max', n := 25, width := 16, corpus := NULL, per_sequence := NULL) AS TABLE
WITH
stored AS (
    SELECT
        t.position_id,
        t.coefficient,
        row_number() OVER (ORDER BY if(tail = 'max', -t.coefficient, t.coefficient), t.position_id) AS overall_rank,
        max(t.rank) OVER () AS k
    FROM trigger AS t
    WHERE t.layer = layer AND t.neuron = neuron AND t.tail = tail AND (corpus IS NULL OR t.corpus_id = corpus)
),

spread AS (
    SELECT
        t.overall_rank,
        t.coefficient,
        t.position_id,
        p.sequence_id,
        p.index,
        p.next_token_id,
        count(*) OVER (PARTITION BY p.sequence_id) AS n_in_sequence
    FROM stored AS t
    INNER JOIN position AS p ON t.position_id = p.position_id
    WHERE t.overall_rank <= t.k
    QUALIFY per_sequence IS NULL OR row_number() OVER (PARTITION BY p.sequence_id ORDER BY t.overall_rank) <= per_sequence
),

place AS MATERIALIZED (
    SELECT
        t.*,
        s.document_id,
        f.position_id AS first_id,
        e.position_id AS last_id,
        f.char_start,
        substr(d.text, f.char_start + 1, e.char_end - f.char_start) AS text
    FROM spread AS t
    INNER JOIN sequence AS s ON t.sequence_id = s.sequence_id
    INNER JOIN document AS d ON s.document_id = d.document_id
    INNER JOIN position AS f ON greatest(t.position_id - width, s.first_position_id) = f.position_id
    INNER JOIN position AS e ON least(t.position_id + width // 2, s.first_position_id + s.n_positions - 1) = e.position_id
),

spot AS (
    SELECT
        l.overall_rank,
        l.char_start,
        l.text,
        unnest(range(l.first_id, l.last_id + 1)) AS position_id
    FROM place AS l
),

-- a position may be a trigger of both tails, traced, and before other triggers besides: the exact number is taken
known AS (
    SELECT
        t.position_id,
        t.coefficient,
        1 AS preference
    FROM trigger AS t
    WHERE t.layer = layer AND t.neuron = neuron
    UNION ALL
    SELECT
        c.position_id,
        c.coefficient,
        2 AS preference
    FROM coefficient AS c
    WHERE c.layer = layer AND c.neuron = neuron
    UNION ALL
    SELECT
        t.position_id - len(t.preceding) + generate_subscripts(t.preceding, 1) - 1 AS position_id,
        (unnest(t.preceding) * t.preceding_scale)::FLOAT AS coefficient,
        3 AS preference
    FROM trigger AS t
    WHERE t.layer = layer AND t.neuron = neuron
),

held AS (
    SELECT
        h.position_id,
        arg_min(h.coefficient, h.preference) AS coefficient
    FROM known AS h
    GROUP BY h.position_id
),

line AS (
    SELECT
        i.overall_rank,
        list(
            if(p.char_end > p.char_start, substr(i.text, p.char_start - i.char_start + 1, p.char_end - p.char_start), k.text)
            ORDER BY p.position_id
        ) AS tokens,
        list(h.coefficient ORDER BY p.position_id) AS coefficients
    FROM spot AS i
    INNER JOIN position AS p ON i.position_id = p.position_id
    INNER JOIN token AS k ON p.token_id = k.token_id
    LEFT JOIN held AS h ON p.position_id = h.position_id
    GROUP BY i.overall_rank
),

folded AS (
    SELECT
        min(i.overall_rank) AS overall_rank,
        arg_min(i.tokens, i.overall_rank) AS tokens,
        arg_min(i.coefficients, i.overall_rank) AS coefficients,
        count(*) - 1 AS n_folded,
        row_number() OVER (ORDER BY min(i.overall_rank)) AS rank
    FROM line AS i
    INNER JOIN place AS l ON i.overall_rank = l.overall_rank
    GROUP BY array_to_string(list_slice(i.tokens, 1, l.position_id - l.first_id + 1), '')
    QUALIFY rank <= n
)

SELECT
    f.rank,
    l.coefficient,
    f.n_folded,
    f.tokens,
    f.coefficients,
    l.position_id - l.first_id AS peak,
    nk.text AS next_token,
    d.name AS document,
    d.metadata,
    d.corpus_id,
    l.sequence_id,
    l.position_id,
    l.index,
    l.n_in_sequence
FROM folded AS f
INNER JOIN place AS l ON f.overall_rank = l.overall_rank
INNER JOIN document AS d ON l.document_id = d.document_id
LEFT JOIN token AS nk ON l.next_token_id = nk.token_id
ORDER BY f.rank;

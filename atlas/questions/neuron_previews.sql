-- title:  Neurons at a glance: tokens, one text, how large the coefficient is
-- source: tables value_token, trigger and neuron_statistics, for many neurons at once
-- grain:  layer, neuron
-- n:      n_read
-- param:  layers (bigint[]): transformer block of each neuron, from 0
-- param:  neurons (bigint[]): FFN hidden unit of each, from 0; a pair named twice is given once
-- param:  position_ids (bigint[], NULL): the trigger that is shown of each; NULL shows the first of the tail
-- param:  tail (text, NULL): max for a trigger of the largest coefficients, min for one of the smallest; NULL takes both
-- param:  width (integer, 8): tokens shown before the trigger, at most
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: promotes: the five tokens that the value promotes most, raw
-- column: coefficient: of the trigger that is shown, signed: of those that may be, the one largest in size over all corpora; null where there is none
-- column: tokens: characters of that trigger and of the tokens before it, in order; the vocabulary's text of a token with none
-- column: coefficients: m_i of this neuron at each of them, before the trigger to 1/254 of the largest there
-- column: next_token: the corpus token that follows the trigger; null where the document ends
-- column: position_id: the token occurrence of the trigger
-- column: histogram: positions in each bin of histogram_bin, from bin 0, over all corpora; null without a sweep
-- column: n_read: positions that the histogram counts
-- column: tail: the end of the key's coefficients that the trigger is of
-- column: rank: of the trigger in that tail, from 1
-- chart:  tokens(tokens, coefficients)
CREATE OR REPLACE MACRO neuron_previews(layers, neurons, position_ids := NULL, tail := NULL, width := 8) AS TABLE
WITH
asked AS MATERIALIZED (
    SELECT DISTINCT
        u.layer,
        u.neuron,
        u.wanted_id
    FROM (SELECT unnest(layers) AS layer, unnest(neurons) AS neuron, unnest(CAST(position_ids AS BIGINT[])) AS wanted_id) AS u
    -- of a pair that is named with two positions, the smaller
    QUALIFY row_number() OVER (PARTITION BY u.layer, u.neuron ORDER BY u.wanted_id) = 1
),

promoted AS (
    SELECT
        v.layer,
        v.neuron,
        list(k.text ORDER BY v.rank) AS promotes
    FROM value_token AS v
    INNER JOIN asked AS a ON v.layer = a.layer AND v.neuron = a.neuron
    INNER JOIN token AS k ON v.token_id = k.token_id
    WHERE v.direction = 'promoted' AND v.rank <= 5
    GROUP BY v.layer, v.neuron
),

strongest AS MATERIALIZED (
    SELECT
        t.layer,
        t.neuron,
        t.tail,
        t.rank,
        t.position_id,
        t.coefficient,
        t.preceding,
        t.preceding_scale
    FROM trigger AS t
    INNER JOIN asked AS a ON t.layer = a.layer AND t.neuron = a.neuron
    WHERE if(a.wanted_id IS NULL, t.rank = 1, t.position_id = a.wanted_id) AND (tail IS NULL OR t.tail = tail)
    QUALIFY row_number() OVER (PARTITION BY t.layer, t.neuron ORDER BY abs(t.coefficient) DESC, t.position_id, t.tail) = 1
),

-- each text is cut from its document once, because finding a character takes longer the further on it stands
place AS MATERIALIZED (
    SELECT
        t.layer,
        t.neuron,
        t.tail,
        t.rank,
        t.coefficient,
        t.preceding,
        t.preceding_scale,
        t.position_id,
        p.next_token_id,
        f.position_id AS first_id,
        f.char_start,
        substr(d.text, f.char_start + 1, p.char_end - f.char_start) AS text
    FROM strongest AS t
    INNER JOIN position AS p ON t.position_id = p.position_id
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    INNER JOIN document AS d ON s.document_id = d.document_id
    INNER JOIN position AS f ON greatest(t.position_id - width, s.first_position_id) = f.position_id
),

spot AS (
    SELECT
        l.layer,
        l.neuron,
        l.char_start,
        l.text,
        l.coefficient,
        l.preceding,
        l.preceding_scale,
        l.position_id AS trigger_id,
        unnest(range(l.first_id, l.position_id + 1)) AS position_id
    FROM place AS l
),

line AS (
    SELECT
        i.layer,
        i.neuron,
        list(
            if(p.char_end > p.char_start, substr(i.text, p.char_start - i.char_start + 1, p.char_end - p.char_start), k.text)
            ORDER BY p.position_id
        ) AS tokens,
        list(
            if(
                p.position_id = i.trigger_id,
                i.coefficient,
                CAST(i.preceding[len(i.preceding) + 1 + p.position_id - i.trigger_id] * i.preceding_scale AS FLOAT)
            )
            ORDER BY p.position_id
        ) AS coefficients
    FROM spot AS i
    INNER JOIN position AS p ON i.position_id = p.position_id
    INNER JOIN token AS k ON p.token_id = k.token_id
    GROUP BY i.layer, i.neuron
),

bins AS (
    SELECT
        s.layer,
        s.neuron,
        generate_subscripts(s.histogram, 1) AS bin,
        unnest(s.histogram) AS n_positions
    FROM neuron_statistics AS s
    INNER JOIN asked AS a ON s.layer = a.layer AND s.neuron = a.neuron
),

added AS (
    SELECT
        b.layer,
        b.neuron,
        b.bin,
        CAST(sum(b.n_positions) AS BIGINT) AS n_positions
    FROM bins AS b
    GROUP BY b.layer, b.neuron, b.bin
),

counted AS (
    SELECT
        b.layer,
        b.neuron,
        list(b.n_positions ORDER BY b.bin) AS histogram,
        CAST(sum(b.n_positions) AS BIGINT) AS n_read
    FROM added AS b
    GROUP BY b.layer, b.neuron
)

SELECT
    n.layer,
    n.neuron,
    p.promotes,
    l.coefficient,
    i.tokens,
    i.coefficients,
    nk.text AS next_token,
    l.position_id,
    c.histogram,
    c.n_read,
    l.tail,
    l.rank
FROM asked AS a
INNER JOIN neuron AS n ON a.layer = n.layer AND a.neuron = n.neuron
LEFT JOIN promoted AS p ON n.layer = p.layer AND n.neuron = p.neuron
LEFT JOIN place AS l ON n.layer = l.layer AND n.neuron = l.neuron
LEFT JOIN line AS i ON n.layer = i.layer AND n.neuron = i.neuron
LEFT JOIN token AS nk ON l.next_token_id = nk.token_id
LEFT JOIN counted AS c ON n.layer = c.layer AND n.neuron = c.neuron
ORDER BY n.layer, n.neuron;

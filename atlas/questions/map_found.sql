-- title:  Where on the map is a token promoted, or a neuron placed?
-- source: table map_point; tokens by value_token and logit_lens_token
-- grain:  layer, neuron, position_id
-- param:  token (text, NULL): text of a token, with or without its leading space: points with it among the ten that they promote most
-- param:  neuron (integer, NULL): instead of a token one neuron of the layer, from 0
-- param:  layer (integer, NULL): points of one layer, from 0; NULL takes all
-- param:  layout (text, 'value'): what is placed: value, the values of all layers; resid_post, states of traced positions there
-- param:  n (integer, 500): how many, those first that promote it most, by score
-- column: layer: transformer block of the value or state, from 0
-- column: neuron: neuron of the value; null for states
-- column: position_id: traced position of the state; null for values
-- column: rank: of the token among those that the point promotes, from 1; null for a neuron that is asked for
-- column: tokens: the five tokens that the point promotes most
-- column: x: horizontal coordinate, of no unit
-- column: y: vertical coordinate
-- column: score: e_w·v of a value, raw projection, logits; of a state the token's probability by the logit lens, in [0, 1]; null where rank is
-- chart:  point(x, y)
CREATE OR REPLACE MACRO map_found(token := NULL, neuron := NULL, layer := NULL, layout := 'value', n := 500) AS TABLE
WITH
wanted AS (
    SELECT k.token_id
    FROM token AS k
    WHERE k.text IN (token, ' ' || token)
),

promoting AS (
    SELECT
        v.layer,
        v.neuron,
        CAST(NULL AS BIGINT) AS position_id,
        arg_max(v.rank, v.score) AS rank,
        max(v.score) AS score
    FROM value_token AS v
    SEMI JOIN wanted AS w ON v.token_id = w.token_id
    WHERE layout = 'value' AND v.direction = 'promoted' AND v.rank <= 10
    GROUP BY v.layer, v.neuron
    UNION ALL
    SELECT
        t.layer,
        NULL AS neuron,
        t.position_id,
        arg_max(t.rank, t.prob) AS rank,
        max(t.prob) AS score
    FROM logit_lens_token AS t
    SEMI JOIN wanted AS w ON t.token_id = w.token_id
    WHERE t.site = layout AND t.rank <= 10
    GROUP BY t.layer, t.position_id
    UNION ALL
    SELECT
        p.layer,
        p.neuron,
        p.position_id,
        NULL AS rank,
        NULL AS score
    FROM last_layout AS p
    WHERE p.layout = layout AND p.layer = layer AND p.neuron = neuron
),

found AS MATERIALIZED (
    SELECT
        p.layer,
        p.neuron,
        p.position_id,
        f.rank,
        f.score,
        p.x,
        p.y
    FROM promoting AS f
    INNER JOIN last_layout AS p
        ON f.layer = p.layer AND f.neuron IS NOT DISTINCT FROM p.neuron AND f.position_id IS NOT DISTINCT FROM p.position_id
    WHERE p.layout = layout AND (layer IS NULL OR p.layer = layer)
    ORDER BY f.score DESC, p.layer, p.neuron, p.position_id
    LIMIT n
),

promoted AS (
    SELECT
        f.layer,
        f.neuron,
        f.position_id,
        v.token_id,
        v.rank
    FROM found AS f
    INNER JOIN value_token AS v ON f.layer = v.layer AND f.neuron = v.neuron
    WHERE v.direction = 'promoted' AND v.rank <= 5
    UNION ALL
    SELECT
        f.layer,
        f.neuron,
        f.position_id,
        t.token_id,
        t.rank
    FROM found AS f
    INNER JOIN logit_lens_token AS t ON f.position_id = t.position_id AND f.layer = t.layer
    WHERE t.site = layout AND t.rank <= 5
),

labelled AS (
    SELECT
        p.layer,
        p.neuron,
        p.position_id,
        list(k.text ORDER BY p.rank) AS tokens
    FROM promoted AS p
    INNER JOIN token AS k ON p.token_id = k.token_id
    GROUP BY p.layer, p.neuron, p.position_id
)

SELECT
    f.layer,
    f.neuron,
    f.position_id,
    f.rank,
    l.tokens,
    f.x,
    f.y,
    f.score
FROM found AS f
LEFT JOIN labelled AS l ON f.layer = l.layer AND f.neuron IS NOT DISTINCT FROM l.neuron AND f.position_id IS NOT DISTINCT FROM l.position_id
ORDER BY f.score DESC, f.layer, f.neuron, f.position_id;

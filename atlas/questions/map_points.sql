-- title:  Values or states in an area of the map, one by one
-- source: table map_point; layout by UMAP over cosines
-- grain:  layer, neuron, position_id
-- param:  layout (text, 'value'): what is placed: value, the values of all layers; resid_post, states of traced positions there
-- param:  x_min (double, NULL): left edge of the area; NULL takes that of the whole layout
-- param:  x_max (double, NULL): right edge
-- param:  y_min (double, NULL): lower edge
-- param:  y_max (double, NULL): upper edge
-- param:  layer (integer, NULL): points of one layer, from 0; NULL takes all
-- param:  n (integer, 5000): how many, the first in order of layer
-- column: layer: transformer block of the value or state, from 0
-- column: neuron: neuron of the value; null for states
-- column: position_id: traced position of the state; null for values
-- column: token: characters of the token there; null for values
-- column: final_token: the model's final prediction there; null for values
-- column: tokens: the five tokens that it promotes most
-- column: x: horizontal coordinate, of no unit
-- column: y: vertical coordinate
-- chart:  point(x, y)
--
-- A value promotes its first tokens for a positive coefficient, a state the leading ones of its logit lens.
CREATE OR REPLACE MACRO map_points(
    layout := 'value', x_min := NULL, x_max := NULL, y_min := NULL, y_max := NULL, layer := NULL, n := 5000
) AS TABLE
WITH
inside AS MATERIALIZED (
    SELECT
        p.layer,
        p.neuron,
        p.position_id,
        p.x,
        p.y
    FROM last_layout AS p
    WHERE
        p.layout = layout
        AND p.x >= coalesce(CAST(x_min AS DOUBLE), p.x)
        AND p.x <= coalesce(CAST(x_max AS DOUBLE), p.x)
        AND p.y >= coalesce(CAST(y_min AS DOUBLE), p.y)
        AND p.y <= coalesce(CAST(y_max AS DOUBLE), p.y)
        AND (layer IS NULL OR p.layer = layer)
    ORDER BY p.layer, p.neuron, p.position_id
    LIMIT n
),

promoted AS (
    SELECT
        i.layer,
        i.neuron,
        i.position_id,
        v.token_id,
        v.rank
    FROM inside AS i
    INNER JOIN value_token AS v ON i.layer = v.layer AND i.neuron = v.neuron
    WHERE v.direction = 'promoted' AND v.rank <= 5
    UNION ALL
    SELECT
        i.layer,
        i.neuron,
        i.position_id,
        t.token_id,
        t.rank
    FROM inside AS i
    INNER JOIN logit_lens_token AS t ON i.position_id = t.position_id AND i.layer = t.layer
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
    i.layer,
    i.neuron,
    i.position_id,
    w.text AS token,
    f.text AS final_token,
    l.tokens,
    i.x,
    i.y
FROM inside AS i
LEFT JOIN labelled AS l ON i.layer = l.layer AND i.neuron IS NOT DISTINCT FROM l.neuron AND i.position_id IS NOT DISTINCT FROM l.position_id
LEFT JOIN position AS p ON i.position_id = p.position_id
LEFT JOIN token AS w ON p.token_id = w.token_id
LEFT JOIN trace AS t ON i.position_id = t.position_id
LEFT JOIN token AS f ON t.final_token_id = f.token_id
ORDER BY i.layer, i.neuron, i.position_id;

-- title:  Saturation and elimination events in each layer
-- source: Geva et al. 2022, section 5.2: the paper's event sets
-- grain:  layer
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: layer: block of the FFN, from 0
-- column: n_saturations: events where the FFN lifts the final prediction to the top for good, by the logit lens; none in the last layer, by definition
-- column: n_eliminations: events where the FFN takes the top place from its candidate, by the logit lens: of each position the one where it falls furthest
-- column: n_input_eliminations: of them those whose candidate is the very token that was read there
-- column: n_other_eliminations: the rest, n_eliminations without the input token
-- column: n_positions: traced positions looked at
-- chart:  bar(layer, n_saturations)
--
-- A position may saturate more than once, where attention takes the prediction down again; it has at most one elimination here.
CREATE OR REPLACE MACRO geva2022_events(corpus := NULL) AS TABLE
WITH
place AS MATERIALIZED (
    SELECT t.position_id
    FROM traced_position AS t
    WHERE t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
),

event AS (
    SELECT
        s.layer,
        s.position_id,
        'saturation' AS event,
        FALSE AS is_input_token
    FROM saturation AS s
    UNION ALL
    SELECT
        e.layer,
        e.position_id,
        'elimination' AS event,
        e.is_input_token
    FROM elimination AS e
    WHERE e.is_largest_fall
),

counted AS (
    SELECT
        e.layer,
        count(*) FILTER (e.event = 'saturation') AS n_saturations,
        count(*) FILTER (e.event = 'elimination') AS n_eliminations,
        count(*) FILTER (e.is_input_token) AS n_input_eliminations
    FROM event AS e
    INNER JOIN place AS p ON e.position_id = p.position_id
    GROUP BY e.layer
)

SELECT
    l.layer,
    coalesce(c.n_saturations, 0) AS n_saturations,
    coalesce(c.n_eliminations, 0) AS n_eliminations,
    coalesce(c.n_input_eliminations, 0) AS n_input_eliminations,
    coalesce(c.n_eliminations - c.n_input_eliminations, 0) AS n_other_eliminations,
    (SELECT count(*) FROM place) AS n_positions
FROM model AS m
CROSS JOIN range(m.n_layers) AS l (layer)
LEFT JOIN counted AS c ON l.layer = c.layer
ORDER BY l.layer;

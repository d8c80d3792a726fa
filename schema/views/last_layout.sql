-- title:  The points of the last layout of each kind
-- source: table map_point
-- grain:  layout, layer, neuron, position_id
CREATE OR REPLACE VIEW last_layout AS
WITH
last AS (
    SELECT
        m.layout,
        max(m.run_id) AS run_id
    FROM map_point AS m
    GROUP BY m.layout
)

SELECT
    p.layout,
    p.layer,
    p.neuron,
    p.position_id,
    p.x,
    p.y
FROM map_point AS p
INNER JOIN last AS l ON p.layout = l.layout AND p.run_id = l.run_id;
COMMENT ON VIEW last_layout IS 'map_point without the layouts that a later one of the same kind has replaced.';
COMMENT ON COLUMN last_layout.layout IS 'value: the values of all layers; resid_post: states of traced positions there.';
COMMENT ON COLUMN last_layout.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN last_layout.neuron IS 'Neuron of the value; null for states.';
COMMENT ON COLUMN last_layout.position_id IS 'Traced position of the state; null for values.';
COMMENT ON COLUMN last_layout.x IS 'Horizontal coordinate, of no unit.';
COMMENT ON COLUMN last_layout.y IS 'Vertical coordinate, of no unit.';

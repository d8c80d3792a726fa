-- rule: a point of the map is of a value or of a traced state, and of nothing else
SELECT p.*
FROM map_point AS p
WHERE
    (p.neuron IS NULL) = (p.layout = 'value')
    OR (p.position_id IS NULL) = (p.layout <> 'value')
    OR (p.layout <> 'value' AND p.position_id NOT IN (SELECT t.position_id FROM trace AS t));

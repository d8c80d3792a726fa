-- rule: every head composes with every head of the layers before it, through keys, queries and values alike
SELECT
    k.kind,
    h.layer,
    h.head,
    e.layer AS from_layer,
    e.head AS from_head
FROM (VALUES ('k'), ('q'), ('v')) AS k (kind)
CROSS JOIN head AS h
INNER JOIN head AS e ON h.layer > e.layer
ANTI JOIN composition AS c
    ON
        k.kind = c.kind
        AND h.layer = c.layer
        AND h.head = c.head
        AND e.layer = c.from_layer
        AND e.head = c.from_head;

-- title: Which layers do the trials change most
-- source: tests
-- grain: layer
-- chart: line
-- param: n (integer, 2): rows to return
-- column: layer: the layer
-- column: mean_effect: mean change of the loss, in nats
CREATE OR REPLACE MACRO trials.largest_effects(n := 2) AS TABLE
    SELECT
        e.layer,
        e.mean_effect
    FROM trials.layer_effect AS e
    ORDER BY e.mean_effect DESC
    LIMIT n;

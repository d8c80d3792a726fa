"""The question of that pass."""

LONGEST_STATES = """-- title: Where the state after a layer is longest
-- source: tests
-- grain: position_id
-- chart: table
-- param: layer (integer): the layer
-- param: n (integer, 3): rows to return
-- column: position_id: the position
-- column: length: ‖resid_post‖
CREATE OR REPLACE MACRO longest_states(layer, n := 3) AS TABLE
    SELECT
        s.position_id,
        s.length
    FROM state_length AS s
    WHERE s.layer = layer
    ORDER BY s.length DESC, s.position_id
    LIMIT n;
"""


def files() -> dict[str, str]:
    return {"longest_states": LONGEST_STATES}

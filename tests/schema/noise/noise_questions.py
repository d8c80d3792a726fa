"""Its question."""

NOISE_LEVELS = """-- title: How much noise does each layer stand
-- source: tests
-- grain: layer
-- chart: line
-- column: layer: the layer
-- column: level: standard deviation of the noise
CREATE OR REPLACE MACRO noise_levels() AS TABLE
    SELECT
        n.layer,
        n.level
    FROM noise_level AS n
    ORDER BY n.layer;
"""


def files() -> dict[str, str]:
    return {"noise_levels": NOISE_LEVELS}

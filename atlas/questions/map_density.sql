-- title:  How many values or states lie where on the map
-- source: table map_point; layout by UMAP over cosines
-- grain:  cell_x, cell_y
-- param:  layout (text, 'value'): what is placed: value, the values of all layers; resid_post, states of traced positions there
-- param:  n_cells (integer, 72): square cells along the longer side of the area
-- param:  x_min (double, NULL): left edge of the area; NULL takes that of the whole layout
-- param:  x_max (double, NULL): right edge
-- param:  y_min (double, NULL): lower edge
-- param:  y_max (double, NULL): upper edge
-- param:  layer (integer, NULL): points of one layer, from 0, in cells that are the same for all; NULL takes all layers
-- column: cell_x: number of the cell from the left, from 0
-- column: cell_y: its number from below, from 0
-- column: x: its left edge, in coordinates of no unit
-- column: y: its lower edge
-- column: side: its width and height
-- column: n_points: values or states in it
-- column: mean_layer: their mean layer, from 0
-- chart:  point(x, y)
--
-- map_cells says besides what sets a cell apart, which takes longer. Cells without points are left out.
CREATE OR REPLACE MACRO map_density(
    layout := 'value', n_cells := 72, x_min := NULL, x_max := NULL, y_min := NULL, y_max := NULL, layer := NULL
) AS TABLE
WITH
whole AS (
    SELECT
        min(p.x) AS x_low,
        max(p.x) AS x_high,
        min(p.y) AS y_low,
        max(p.y) AS y_high
    FROM last_layout AS p
    WHERE p.layout = layout
),

area AS (
    SELECT
        coalesce(CAST(x_min AS DOUBLE), w.x_low) AS x_low,
        coalesce(CAST(x_max AS DOUBLE), w.x_high) AS x_high,
        coalesce(CAST(y_min AS DOUBLE), w.y_low) AS y_low,
        coalesce(CAST(y_max AS DOUBLE), w.y_high) AS y_high
    FROM whole AS w
),

grid AS MATERIALIZED (
    SELECT
        a.*,
        coalesce(nullif(greatest(a.x_high - a.x_low, a.y_high - a.y_low), 0), 1) / n_cells AS side
    FROM area AS a
),

inside AS (
    SELECT
        p.layer,
        CAST(least(floor((p.x - g.x_low) / g.side), n_cells - 1) AS INTEGER) AS cell_x,
        CAST(least(floor((p.y - g.y_low) / g.side), n_cells - 1) AS INTEGER) AS cell_y,
        g.x_low,
        g.y_low,
        g.side
    FROM last_layout AS p
    CROSS JOIN grid AS g
    WHERE p.layout = layout AND p.x BETWEEN g.x_low AND g.x_high AND p.y BETWEEN g.y_low AND g.y_high AND (layer IS NULL OR p.layer = layer)
)

SELECT
    i.cell_x,
    i.cell_y,
    any_value(i.x_low + i.cell_x * i.side) AS x,
    any_value(i.y_low + i.cell_y * i.side) AS y,
    any_value(i.side) AS side,
    count(*) AS n_points,
    avg(i.layer) AS mean_layer
FROM inside AS i
GROUP BY i.cell_x, i.cell_y
ORDER BY i.cell_y, i.cell_x;

-- title:  Values or states near each other, and what they promote
-- source: Carter et al. 2019, Activation Atlas, with tokens for pictures; layout by UMAP over cosines
-- grain:  cell_x, cell_y
-- param:  layout (text, 'value'): what is placed: value, the values of all layers; resid_post, states of traced positions there
-- param:  n_cells (integer, 24): square cells along the longer side of the area
-- param:  x_min (double, NULL): left edge of the area; NULL takes that of the whole layout
-- param:  x_max (double, NULL): right edge
-- param:  y_min (double, NULL): lower edge
-- param:  y_max (double, NULL): upper edge
-- param:  layer (integer, NULL): points of one layer, from 0, in cells that are the same for all; NULL takes all layers
-- column: cell_x: number of the cell from the left, from 0
-- column: cell_y: its number from below, from 0
-- column: x: its centre, in coordinates of no unit
-- column: y: its centre
-- column: side: its width and height
-- column: n_points: values or states in it
-- column: mean_layer: their mean layer, from 0
-- column: lowest_layer: the lowest of their layers
-- column: highest_layer: the highest
-- column: tokens: the five tokens that set them apart from the rest of the area, by what they promote
-- chart:  point(x, y)
--
-- A value promotes its first ten tokens for a positive coefficient, a state the ten leading ones of its logit lens. A token sets a cell apart by
-- n·ln(n / expected): n points of the cell promote it, and as many were expected if the cell were like the area. Sorted by n alone, most cells
-- would have the same few tokens that values of any direction promote. Cells without points are left out.
CREATE OR REPLACE MACRO map_cells(
    layout := 'value', n_cells := 24, x_min := NULL, x_max := NULL, y_min := NULL, y_max := NULL, layer := NULL
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

inside AS MATERIALIZED (
    SELECT
        p.layer,
        p.neuron,
        p.position_id,
        CAST(least(floor((p.x - g.x_low) / g.side), n_cells - 1) AS INTEGER) AS cell_x,
        CAST(least(floor((p.y - g.y_low) / g.side), n_cells - 1) AS INTEGER) AS cell_y
    FROM last_layout AS p
    CROSS JOIN grid AS g
    WHERE p.layout = layout AND p.x BETWEEN g.x_low AND g.x_high AND p.y BETWEEN g.y_low AND g.y_high AND (layer IS NULL OR p.layer = layer)
),

promoted AS (
    SELECT
        i.cell_x,
        i.cell_y,
        v.token_id,
        v.rank
    FROM inside AS i
    INNER JOIN value_token AS v ON i.layer = v.layer AND i.neuron = v.neuron
    WHERE v.direction = 'promoted' AND v.rank <= 10
    UNION ALL
    SELECT
        i.cell_x,
        i.cell_y,
        t.token_id,
        t.rank
    FROM inside AS i
    INNER JOIN logit_lens_token AS t ON i.position_id = t.position_id AND i.layer = t.layer
    WHERE t.site = layout AND t.rank <= 10
),

counted AS MATERIALIZED (
    SELECT
        p.cell_x,
        p.cell_y,
        p.token_id,
        count(*) AS n_points,
        min(p.rank) AS best_rank
    FROM promoted AS p
    GROUP BY p.cell_x, p.cell_y, p.token_id
),

filled AS MATERIALIZED (
    SELECT
        i.cell_x,
        i.cell_y,
        count(*) AS n_points,
        avg(i.layer) AS mean_layer,
        min(i.layer) AS lowest_layer,
        max(i.layer) AS highest_layer
    FROM inside AS i
    GROUP BY i.cell_x, i.cell_y
),

everywhere AS (
    SELECT
        c.token_id,
        sum(c.n_points) AS n_promoting,
        (SELECT count(*) FROM inside) AS n_points
    FROM counted AS c
    GROUP BY c.token_id
),

ranked AS (
    SELECT
        c.cell_x,
        c.cell_y,
        c.token_id,
        row_number() OVER (
            PARTITION BY c.cell_x, c.cell_y
            ORDER BY c.n_points * ln(c.n_points * e.n_points / (f.n_points * e.n_promoting)) DESC, c.best_rank, c.token_id
        ) AS place
    FROM counted AS c
    INNER JOIN filled AS f ON c.cell_x = f.cell_x AND c.cell_y = f.cell_y
    INNER JOIN everywhere AS e ON c.token_id = e.token_id
    QUALIFY place <= 5
),

labelled AS (
    SELECT
        r.cell_x,
        r.cell_y,
        list(k.text ORDER BY r.place) AS tokens
    FROM ranked AS r
    INNER JOIN token AS k ON r.token_id = k.token_id
    GROUP BY r.cell_x, r.cell_y
)

SELECT
    f.cell_x,
    f.cell_y,
    g.x_low + (f.cell_x + 0.5) * g.side AS x,
    g.y_low + (f.cell_y + 0.5) * g.side AS y,
    g.side,
    f.n_points,
    f.mean_layer,
    f.lowest_layer,
    f.highest_layer,
    l.tokens
FROM filled AS f
CROSS JOIN grid AS g
LEFT JOIN labelled AS l ON f.cell_x = l.cell_x AND f.cell_y = l.cell_y
ORDER BY f.n_points DESC, f.cell_y, f.cell_x;

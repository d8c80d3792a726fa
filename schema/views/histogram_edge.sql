-- title:  Edges of the histogram bins of coefficients
-- source: schema/terms.py, histogram_edges(); the same for every atlas, so that histograms add up
-- grain:  bin
--
-- 33 magnitudes, two an octave from 2^-8 to 2^8 (the power of two and 1.5 times it), mirrored for negative coefficients:
-- upper edges are -magnitude[32 - bin] for bins 0 to 32, 0 for bin 33, magnitude[bin - 34] for bins 34 to 66, infinity for bin 67.
CREATE OR REPLACE VIEW histogram_edge AS
WITH
bins AS (
    SELECT
        r.bin,
        if(r.bin <= 32, 32 - r.bin, r.bin - 34) AS half_octave
    FROM range(68) AS r (bin)
),

upper_edges AS (
    SELECT
        b.bin,
        CASE
            WHEN b.bin = 33 THEN 0.0
            WHEN b.bin = 67 THEN CAST('infinity' AS DOUBLE)
            ELSE if(b.bin <= 32, -1.0, 1.0) * pow(2.0, -8 + b.half_octave // 2) * if(b.half_octave % 2 = 1, 1.5, 1.0)
        END AS upper_edge
    FROM bins AS b
)

SELECT
    CAST(u.bin AS SMALLINT) AS bin,
    lag(u.upper_edge, 1, CAST('-infinity' AS DOUBLE)) OVER (ORDER BY u.bin) AS lower_edge,
    u.upper_edge
FROM upper_edges AS u;
COMMENT ON VIEW histogram_edge IS 'The fixed bins of neuron_statistics.histogram.';
COMMENT ON COLUMN histogram_edge.bin IS 'Place in neuron_statistics.histogram, from 0.';
COMMENT ON COLUMN histogram_edge.lower_edge IS 'Where the bin begins: included for coefficients >= 0, excluded for negative ones.';
COMMENT ON COLUMN histogram_edge.upper_edge IS 'Where the bin ends: excluded for coefficients >= 0, included for negative ones.';

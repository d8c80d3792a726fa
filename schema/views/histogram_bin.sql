-- title:  Histogram of every neuron's coefficients, one row a bin
-- source: table neuron_statistics
-- grain:  corpus_id, layer, neuron, bin
CREATE OR REPLACE VIEW histogram_bin AS
SELECT
    s.corpus_id,
    s.layer,
    s.neuron,
    e.bin,
    e.lower_edge,
    e.upper_edge,
    s.histogram[e.bin + 1] AS n_positions
FROM neuron_statistics AS s
CROSS JOIN histogram_edge AS e;
COMMENT ON VIEW histogram_bin IS 'neuron_statistics.histogram unfolded: how many positions have a coefficient in each bin.';
COMMENT ON COLUMN histogram_bin.corpus_id IS 'The corpus counted over.';
COMMENT ON COLUMN histogram_bin.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN histogram_bin.neuron IS 'FFN hidden unit of the layer, counted from 0.';
COMMENT ON COLUMN histogram_bin.bin IS 'From 0, ascending coefficients.';
COMMENT ON COLUMN histogram_bin.lower_edge IS 'Where the bin begins: included for coefficients >= 0, excluded for negative ones.';
COMMENT ON COLUMN histogram_bin.upper_edge IS 'Where the bin ends: excluded for coefficients >= 0, included for negative ones.';
COMMENT ON COLUMN histogram_bin.n_positions IS 'Positions whose coefficient lies in the bin.';

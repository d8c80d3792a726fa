-- title:  Neurons by how often their key fires: dead, rare, usual or dense
-- source: neuron_statistics.histogram: sizes of coefficients, since in gated FFNs and with GELU their sign does not say whether a key fires
-- grain:  corpus_id, layer, neuron
-- n:      n_read
-- param:  density (text, NULL): dead, rare, usual or dense; NULL takes all
-- param:  layer (integer, NULL): one layer, from 0; NULL takes all
-- param:  neuron (integer, NULL): one FFN hidden unit of each of these layers, from 0; NULL takes all
-- param:  n (integer, 25): how many, those first that fire most rarely, of dense ones most often
-- param:  corpus (integer, NULL): one corpus_id; NULL gives rows for each corpus
-- column: corpus_id: the corpus that is counted over
-- column: layer: transformer block, from 0
-- column: neuron: FFN hidden unit of the layer, from 0
-- column: density: dead if it never fires, rare below 0.05 of the positions, dense above 0.5, else usual
-- column: share: positions where the key fires / n_read, in [0, 1]: where |m_i| is above the threshold
-- column: threshold: a tenth of p999, or a hundredth of the layer's median p999 where that is more; at least 1/256, below which no size is told apart
-- column: p999: the size |m_i| that one position in a thousand exceeds
-- column: relative_size: p999 / the median p999 of the layer's neurons; null where that is 0
-- column: largest: largest |m_i|
-- column: n_read: positions that the sweep counts
-- chart:  bar(neuron, share)
--
-- Sizes are read from the histogram, whose bins are two an octave: within a bin, positions are taken to lie evenly.
CREATE OR REPLACE MACRO neurons_by_density(density := NULL, layer := NULL, neuron := NULL, n := 25, corpus := NULL) AS TABLE
WITH
-- bin 33 + i of positive coefficients and bin 34 - i of negative ones are of one size, i from 1
edge AS MATERIALIZED (
    SELECT
        list(e.lower_edge ORDER BY e.bin) AS low,
        list(e.upper_edge ORDER BY e.bin) AS high
    FROM histogram_edge AS e
    WHERE e.bin > 33
),

size AS MATERIALIZED (
    SELECT
        s.corpus_id,
        s.layer,
        s.neuron,
        greatest(abs(s.min), abs(s.max)) AS largest,
        [s.histogram[34 + i] + s.histogram[35 - i] FOR i IN range(1, 35)] AS counts,
        list_sum(s.histogram) AS n_read
    FROM neuron_statistics AS s
    WHERE s.n_positions > 0 AND (layer IS NULL OR s.layer = layer) AND (corpus IS NULL OR s.corpus_id = corpus)
),

-- the size bin in which p999 lies, from 1
placed AS (
    SELECT
        i.*,
        list_position([list_sum(i.counts[1:j]) >= CAST(0.999 AS DOUBLE) * i.n_read FOR j IN range(1, 35)], TRUE) AS place
    FROM size AS i
),

tall AS (
    SELECT
        p.*,
        e.low,
        [least(h, p.largest) FOR h IN e.high] AS high,
        e.low[p.place]
        + (least(e.high[p.place], p.largest) - e.low[p.place])
        * (CAST(0.999 AS DOUBLE) * p.n_read - coalesce(list_sum(p.counts[1:p.place - 1]), 0)) / p.counts[p.place] AS p999
    FROM placed AS p
    CROSS JOIN edge AS e
),

judged AS (
    SELECT
        t.*,
        median(t.p999) OVER (PARTITION BY t.corpus_id, t.layer) AS usual_size,
        greatest(t.p999 / 10, usual_size / 100, 1 / 256) AS threshold
    FROM tall AS t
),

shared AS (
    SELECT
        j.*,
        -- of a bin that the threshold lies in, the part above it
        list_sum(
            [
                j.counts[i] * if(
                    j.high[i] > j.low[i],
                    greatest(0, least(1, (j.high[i] - j.threshold) / (j.high[i] - j.low[i]))),
                    CAST(j.low[i] > j.threshold AS DOUBLE)
                )
                FOR i IN range(1, 35)
            ]
        ) / j.n_read AS share
    FROM judged AS j
),

named AS (
    SELECT
        h.*,
        CASE
            WHEN h.share = 0 THEN 'dead'
            WHEN h.share < 0.05 THEN 'rare'
            WHEN h.share > 0.5 THEN 'dense'
            ELSE 'usual'
        END AS density
    FROM shared AS h
)

SELECT
    d.corpus_id,
    d.layer,
    d.neuron,
    d.density,
    d.share,
    d.threshold,
    d.p999,
    d.p999 / nullif(d.usual_size, 0) AS relative_size,
    d.largest,
    CAST(d.n_read AS BIGINT) AS n_read
FROM named AS d
WHERE (density IS NULL OR d.density = density) AND (neuron IS NULL OR d.neuron = neuron)
ORDER BY if(density = 'dense', -d.share, d.share), d.corpus_id, d.layer, d.neuron
LIMIT n;

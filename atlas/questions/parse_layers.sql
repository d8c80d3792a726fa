-- title:  In which layer distances and depths of states follow parse trees
-- source: Hewitt and Manning 2019, structural probes; tables tree_probe and tree_task
-- grain:  run_id, layer, site, rank
-- n:      n_edges
-- param:  rank (integer, NULL): dimensions of the probe; NULL gives the largest of each run, 0 gives all
-- param:  run (integer, NULL): one run of the pass tree_probe; NULL gives the rows of each
-- column: run_id: the run
-- column: layer: transformer block, from 0
-- column: site: resid_pre of layer 0, resid_post of the layers that were probed
-- column: rank: dimensions that states are mapped to
-- column: uuas: share of the trees' edges that the minimum spanning tree of the squared distances has, punctuation left out, in [0, 1]
-- column: uuas_low: lower end of its 95% interval over documents; null where there is none
-- column: uuas_high: upper end
-- column: n_clusters: documents of the test, which the interval is over; null where it is of an earlier release
-- column: interval_note: how the interval was made, or why there is none
-- column: chain_uuas: the same share where each word is joined to the next, which needs no state
-- column: untrained_uuas: share in the same architecture with random weights
-- column: spearman: rank correlation of each word's distances with the tree's, over sentences of 5 to 50 words
-- column: chain_spearman: the same of distances in the order of words
-- column: untrained_spearman: in the untrained model
-- column: root_accuracy: share of sentences whose least deep word is the root
-- column: chain_root_accuracy: share of sentences whose first word is the root
-- column: untrained_root_accuracy: in the untrained model
-- column: depth_spearman: rank correlation of a sentence's depths with the tree's
-- column: chain_depth_spearman: the same of the places of words
-- column: n_train: sentences to learn from
-- column: n_test: sentences of the test, in other documents
-- column: n_edges: edges of the test's trees
-- chart:  line(layer, uuas)
CREATE OR REPLACE MACRO parse_layers(rank := NULL, run := NULL) AS TABLE
WITH
asked AS (
    SELECT p.*
    FROM tree_probe AS p
    WHERE run IS NULL OR p.run_id = run
    QUALIFY p.rank = rank OR rank = 0 OR (rank IS NULL AND p.rank = max(p.rank) OVER (PARTITION BY p.run_id))
),

of_place AS (
    SELECT
        p.run_id,
        p.layer,
        p.site,
        p.rank,
        max(p.accuracy) FILTER (WHERE p.target = 'distance' AND p.kind = 'tree') AS uuas,
        max(p.accuracy_low) FILTER (WHERE p.target = 'distance' AND p.kind = 'tree') AS uuas_low,
        max(p.accuracy_high) FILTER (WHERE p.target = 'distance' AND p.kind = 'tree') AS uuas_high,
        max(p.n_clusters) FILTER (WHERE p.target = 'distance' AND p.kind = 'tree') AS n_clusters,
        max(p.interval_note) FILTER (WHERE p.target = 'distance' AND p.kind = 'tree') AS interval_note,
        max(p.spearman) FILTER (WHERE p.target = 'distance' AND p.kind = 'tree') AS spearman,
        max(p.accuracy) FILTER (WHERE p.target = 'distance' AND p.kind = 'untrained') AS untrained_uuas,
        max(p.spearman) FILTER (WHERE p.target = 'distance' AND p.kind = 'untrained') AS untrained_spearman,
        max(p.accuracy) FILTER (WHERE p.target = 'depth' AND p.kind = 'tree') AS root_accuracy,
        max(p.spearman) FILTER (WHERE p.target = 'depth' AND p.kind = 'tree') AS depth_spearman,
        max(p.accuracy) FILTER (WHERE p.target = 'depth' AND p.kind = 'untrained') AS untrained_root_accuracy
    FROM asked AS p
    GROUP BY p.run_id, p.layer, p.site, p.rank
)

SELECT
    o.run_id,
    o.layer,
    o.site,
    o.rank,
    o.uuas,
    o.uuas_low,
    o.uuas_high,
    o.n_clusters,
    coalesce(o.interval_note, 'percentile bootstrap of an earlier release: too narrow over few clusters') AS interval_note,
    d.chain_accuracy AS chain_uuas,
    o.untrained_uuas,
    o.spearman,
    d.chain_spearman,
    o.untrained_spearman,
    o.root_accuracy,
    e.chain_accuracy AS chain_root_accuracy,
    o.untrained_root_accuracy,
    o.depth_spearman,
    e.chain_spearman AS chain_depth_spearman,
    d.n_train,
    d.n_test,
    d.n_scored AS n_edges
FROM of_place AS o
INNER JOIN tree_task AS d ON o.run_id = d.run_id AND d.target = 'distance'
INNER JOIN tree_task AS e ON o.run_id = e.run_id AND e.target = 'depth'
ORDER BY o.run_id, o.layer, o.site DESC, o.rank;

-- title:  Functional groups among the values of extreme sub-updates
-- source: Geva et al. 2022, section 5.3: upper-layer values that promote unlikely tokens, and values of any layer that promote common ones
-- grain:  value_group
-- n:      n_updates
-- param:  space (text, 'value'): what was clustered: value, the values themselves, or logits, their scores over the vocabulary
-- param:  threshold (double, 10.0): size of the candidate's score above which a dominant sub-update is extreme, raw logits
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: value_group: unlikely, upper layers; common, any layer; or other
-- column: n_clusters: clusters of the group
-- column: n_values: different values of extreme sub-updates in them
-- column: n_updates: their extreme sub-updates
-- column: updates_share: share of all extreme sub-updates, in [0, 1]
-- column: lowest_layer: lowest layer of the values, from 0
-- column: highest_layer: highest layer of the values
-- column: mean_sign: mean sign of the candidate's score over the sub-updates: 1 all promote it, -1 all demote it
-- column: mean_unlikely_share: share of the tokens promoted that are unlikely, mean over clusters, in [0, 1]
-- column: mean_common_share: share of the tokens promoted that are common, mean over clusters, in [0, 1]
-- column: tokens: what the group's largest cluster promotes, five tokens
-- chart:  bar(value_group, n_updates)
--
-- The paper names the groups after reading clusters; this is the rule here, for each cluster of `geva2022_extreme_clusters`:
-- unlikely, upper layers: all its values lie in the upper half (layer >= n_layers / 2), and at least half of the tokens they promote are unlikely,
-- that is, outside the commonest tokens that make 99% of the corpora's text;
-- common, any layer: not so, and at least half of the tokens are among the commonest that make half of the text; other: neither.
CREATE OR REPLACE MACRO geva2022_value_groups(space := 'value', threshold := 10.0, corpus := NULL) AS TABLE
WITH
grouped AS (
    SELECT
        c.*,
        CASE
            WHEN c.unlikely_share >= 0.5 AND c.lowest_layer >= m.n_layers / 2 THEN 'unlikely, upper layers'
            WHEN c.common_share >= 0.5 THEN 'common, any layer'
            ELSE 'other'
        END AS value_group
    FROM geva2022_extreme_clusters(space := space, threshold := threshold, n := NULL, corpus := corpus) AS c
    CROSS JOIN model AS m
)

SELECT
    g.value_group,
    count(*) AS n_clusters,
    CAST(sum(g.n_values) AS BIGINT) AS n_values,
    CAST(sum(g.n_updates) AS BIGINT) AS n_updates,
    sum(g.n_updates) / sum(sum(g.n_updates)) OVER () AS updates_share,
    min(g.lowest_layer) AS lowest_layer,
    max(g.highest_layer) AS highest_layer,
    sum(g.mean_sign * g.n_updates) / sum(g.n_updates) AS mean_sign,
    avg(g.unlikely_share) AS mean_unlikely_share,
    avg(g.common_share) AS mean_common_share,
    first(g.tokens ORDER BY g.n_updates DESC, g.cluster) AS tokens
FROM grouped AS g
GROUP BY g.value_group
ORDER BY list_position(['unlikely, upper layers', 'common, any layer', 'other'], g.value_group);

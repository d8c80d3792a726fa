-- title:  Clusters of values that recur in extreme sub-updates
-- source: Geva et al. 2022, section 5.3: agglomerative clusters, complete linkage on 1 - cosine
-- grain:  cluster
-- n:      n_updates
-- param:  space (text, 'value'): what was clustered: value, the values themselves, or logits, their scores over the vocabulary
-- param:  threshold (double, 10.0): size of the candidate's score above which a dominant sub-update is extreme, raw logits
-- param:  n (integer, 25): how many clusters, those with most extreme sub-updates first
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: cluster: number of the cluster within its space
-- column: n_updates: extreme sub-updates whose value is in the cluster
-- column: n_positions: traced positions where they are
-- column: n_values: different values among them
-- column: lowest_layer: lowest layer of those values, from 0
-- column: highest_layer: highest layer of those values
-- column: mean_sign: mean sign of the candidate's score: 1 all promote it, -1 all demote it
-- column: tokens: the five tokens that most of the values promote, by the coefficient's sign
-- column: mean_frequency_rank: mean rank, by occurrences in the corpora, of the tokens promoted, from 1 for the commonest
-- column: common_share: share of the tokens promoted that are among the commonest, which make half of the corpora's text, in [0, 1]
-- column: unlikely_share: share of them outside the commonest that make 99% of it; tokens never read are outside
-- chart:  bar(cluster, n_updates)
--
-- Promoted are the value's first 10 tokens, or its first 10 suppressed ones where the coefficient is negative; each value counts once for each sign.
-- In SQL, n := NULL takes all clusters.
CREATE OR REPLACE MACRO geva2022_extreme_clusters(space := 'value', threshold := 10.0, n := 25, corpus := NULL) AS TABLE
WITH
extreme AS MATERIALIZED (
    SELECT
        c.cluster,
        u.layer,
        u.neuron,
        u.position_id,
        u.candidate_score,
        if(u.coefficient >= 0, 'promoted', 'suppressed') AS direction
    FROM sub_update AS u
    INNER JOIN traced_position AS t ON u.position_id = t.position_id
    INNER JOIN value_cluster AS c ON u.layer = c.layer AND u.neuron = c.neuron
    WHERE
        c.space = space AND u.selection = 'dominant' AND abs(u.candidate_score) > threshold
        AND t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
),

counted AS MATERIALIZED (
    SELECT
        e.cluster,
        count(*) AS n_updates,
        count(DISTINCT e.position_id) AS n_positions,
        count(DISTINCT row(e.layer, e.neuron)) AS n_values,
        min(e.layer) AS lowest_layer,
        max(e.layer) AS highest_layer,
        avg(sign(e.candidate_score)) AS mean_sign
    FROM extreme AS e
    GROUP BY e.cluster
    ORDER BY n_updates DESC, e.cluster
    LIMIT n
),

lifted AS (
    SELECT
        e.cluster,
        v.token_id,
        count(*) AS n_values,
        min(v.rank) AS best_rank
    FROM (SELECT DISTINCT i.cluster, i.layer, i.neuron, i.direction FROM extreme AS i SEMI JOIN counted AS c ON i.cluster = c.cluster) AS e
    INNER JOIN value_token AS v ON e.layer = v.layer AND e.neuron = v.neuron AND e.direction = v.direction
    WHERE v.rank <= 10
    GROUP BY e.cluster, v.token_id
),

promoted AS (
    SELECT
        l.cluster,
        list(k.text ORDER BY l.n_values DESC, l.best_rank, l.token_id)[:5] AS tokens,
        sum(l.n_values * f.frequency_rank) / sum(l.n_values) AS mean_frequency_rank,
        sum(if(f.share_before < 0.5, l.n_values, 0)) / sum(l.n_values) AS common_share,
        sum(if(f.share_before >= 0.99, l.n_values, 0)) / sum(l.n_values) AS unlikely_share
    FROM lifted AS l
    INNER JOIN token AS k ON l.token_id = k.token_id
    INNER JOIN token_frequency AS f ON l.token_id = f.token_id
    GROUP BY l.cluster
)

SELECT
    c.*,
    p.* EXCLUDE (cluster)
FROM counted AS c
INNER JOIN promoted AS p ON c.cluster = p.cluster
ORDER BY c.n_updates DESC, c.cluster;

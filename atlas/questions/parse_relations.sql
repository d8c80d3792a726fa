-- title:  Which relations of a parse a structural probe finds
-- source: Hewitt and Manning 2019; tables tree_edge and word
-- grain:  run_id, relation
-- n:      n_edges
-- param:  layer (integer): a layer that was probed
-- param:  site (text, 'resid_post'): resid_post, or resid_pre of layer 0
-- param:  min_edges (integer, 20): edges that a relation must have
-- column: run_id: the run of the pass tree_probe
-- column: relation: what the word is to its head, as the source of the words names it
-- column: n_edges: words of the test with this relation; neither they nor their heads are punctuation
-- column: n_found: of these, words that the probe's tree joins to their head
-- column: share: n_found / n_edges
-- column: neighbours: share of these words that stand beside their head, which is what a chain finds
-- column: mean_distance: mean number of words from the word to its head
-- chart:  bar(relation, share)
CREATE OR REPLACE MACRO parse_relations(layer, site := 'resid_post', min_edges := 20) AS TABLE
WITH
edge AS (
    SELECT
        e.run_id,
        e.word_id,
        e.joined_word_id
    FROM tree_edge AS e
    WHERE e.layer = layer AND e.site = site
),

-- words that probes look at, by their place in the sentence
scored AS (
    SELECT
        x.run_id,
        w.word_id,
        w.head_word_id,
        w.relation,
        row_number() OVER (PARTITION BY x.run_id, w.document_id, w.sentence ORDER BY w.word_id) AS place
    FROM (
        SELECT
            e.run_id,
            e.word_id
        FROM edge AS e
        UNION
        SELECT
            e.run_id,
            e.joined_word_id
        FROM edge AS e
    ) AS x
    INNER JOIN tree_task AS t ON x.run_id = t.run_id AND t.target = 'distance'
    INNER JOIN word AS w ON t.corpus_id = w.corpus_id AND x.word_id = w.word_id
),

of_relation AS (
    SELECT
        s.run_id,
        s.relation,
        count(*) AS n_edges,
        count(*) FILTER (WHERE d.joined_word_id = h.word_id OR u.joined_word_id = s.word_id) AS n_found,
        count(*) FILTER (WHERE abs(s.place - h.place) = 1) AS n_neighbours,
        avg(abs(s.place - h.place)) AS mean_distance
    FROM scored AS s
    INNER JOIN scored AS h ON s.run_id = h.run_id AND s.head_word_id = h.word_id
    LEFT JOIN edge AS d ON s.run_id = d.run_id AND s.word_id = d.word_id
    LEFT JOIN edge AS u ON h.run_id = u.run_id AND h.word_id = u.word_id
    GROUP BY s.run_id, s.relation
)

SELECT
    o.run_id,
    o.relation,
    o.n_edges,
    o.n_found,
    o.n_found / o.n_edges AS share,
    o.n_neighbours / o.n_edges AS neighbours,
    o.mean_distance
FROM of_relation AS o
WHERE o.n_edges >= min_edges
ORDER BY o.run_id, o.n_edges DESC, o.relation;

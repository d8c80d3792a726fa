-- title:  Do FFNs build predictions by promoting or by eliminating?
-- source: Geva et al. 2022, section 5.2 and table 4
-- grain:  event, selection
-- param:  corpus (integer, NULL): one corpus_id; NULL takes all corpora
-- column: event: saturation or elimination
-- column: selection: dominant: the 10 largest sub-updates; random: 10 others
-- column: n_events: events averaged over
-- column: mean_score: mean score m·(e_w·v) of the 10, averaged over the events, raw logits
-- column: max_score: largest of the 10, averaged over the events
-- column: min_score: smallest of the 10, averaged over the events
-- chart:  bar(event, max_score)
--
-- Events: every saturation before the last layer (reference token: the final prediction, promoted), and of each position
-- the elimination where the candidate falls furthest (reference token: the candidate, removed).
-- Of each event the mean, largest and smallest score over its 10 dominant sub-updates, then the average of each over the events;
-- the same over 10 random sub-updates of the same position and layer.
-- A score multiplies the token's unnormalised probability by its exponential: positive promotes, negative demotes.
CREATE OR REPLACE MACRO promotion_vs_elimination(corpus := NULL) AS TABLE
WITH
scored AS (
    SELECT
        'saturation' AS event,
        e.position_id,
        e.layer,
        u.selection,
        u.final_score AS score
    FROM saturation AS e
    INNER JOIN sub_update AS u ON e.position_id = u.position_id AND e.layer = u.layer
    UNION ALL
    SELECT
        'elimination' AS event,
        e.position_id,
        e.layer,
        u.selection,
        u.candidate_score AS score
    FROM elimination AS e
    INNER JOIN sub_update AS u ON e.position_id = u.position_id AND e.layer = u.layer
    WHERE e.is_largest_fall
),

by_event AS (
    SELECT
        s.event,
        s.selection,
        s.position_id,
        s.layer,
        avg(s.score) AS mean_score,
        max(s.score) AS max_score,
        min(s.score) AS min_score
    FROM scored AS s
    INNER JOIN trace AS t ON s.position_id = t.position_id
    INNER JOIN run AS r ON t.run_id = r.run_id
    WHERE corpus IS NULL OR r.corpus_id = corpus
    GROUP BY s.event, s.selection, s.position_id, s.layer
)

SELECT
    b.event,
    b.selection,
    count(*) AS n_events,
    avg(b.mean_score) AS mean_score,
    avg(b.max_score) AS max_score,
    avg(b.min_score) AS min_score
FROM by_event AS b
GROUP BY b.event, b.selection
ORDER BY b.event DESC, b.selection;

-- title:  Do FFNs build predictions by promoting or by eliminating?
-- source: Geva et al. 2022, section 5.2 and table 4
-- grain:  event, selection
-- n:      n_events
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: event: saturation; elimination; and of the eliminations those of another token than the input token, the one that was read there
-- column: selection: dominant: the 10 largest sub-updates; random: 10 others
-- column: n_events: events averaged over
-- column: n_input_token: of them those whose reference token is the input token
-- column: mean_score: mean score m·(e_w·v) of the 10, averaged over the events, raw
-- column: max_score: largest of the 10, averaged over the events
-- column: min_score: smallest of the 10, averaged over the events
-- column: mean_frozen_score: the same of what they add to the token's logit, the final norm's scale held; null where the trace is older than the column
-- column: max_frozen_score: largest of the 10, averaged over the events, logits
-- column: min_frozen_score: smallest of the 10, averaged over the events, logits
-- chart:  bar(event, max_score)
--
-- Events: every saturation before the last layer (reference token: the final prediction, promoted), and of each position
-- the elimination where the candidate falls furthest (reference token: the candidate, removed).
-- Of each event the mean, largest and smallest score over its 10 dominant sub-updates, then the average of each over the events;
-- the same over 10 random sub-updates of the same position and layer.
-- With tied embeddings most eliminations take down the input token, which no longer is a guess at what follows: hence the third event.
-- Positive promotes, negative demotes. A frozen-norm score multiplies the token's unnormalised probability by its exponential; so does a raw one
-- where no final norm follows, as in the paper's model.
CREATE OR REPLACE MACRO promotion_vs_elimination(corpus := NULL) AS TABLE
WITH
event AS (
    SELECT
        'saturation' AS event,
        s.position_id,
        s.layer,
        s.final_token_id = p.token_id AS is_input_token
    FROM saturation AS s
    INNER JOIN position AS p ON s.position_id = p.position_id
    UNION ALL
    SELECT
        unnest(if(e.is_input_token, ['elimination'], ['elimination', 'elimination of another token'])) AS event,
        e.position_id,
        e.layer,
        e.is_input_token
    FROM elimination AS e
    WHERE e.is_largest_fall
),

scored AS (
    SELECT
        e.*,
        u.selection,
        if(e.event = 'saturation', u.final_score, u.candidate_score) AS score,
        if(e.event = 'saturation', u.final_frozen_score, u.candidate_frozen_score) AS frozen_score
    FROM event AS e
    INNER JOIN traced_position AS t ON e.position_id = t.position_id
    INNER JOIN sub_update AS u ON e.position_id = u.position_id AND e.layer = u.layer
    WHERE t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
),

by_event AS (
    SELECT
        s.event,
        s.selection,
        s.is_input_token,
        avg(s.score) AS mean_score,
        max(s.score) AS max_score,
        min(s.score) AS min_score,
        avg(s.frozen_score) AS mean_frozen_score,
        max(s.frozen_score) AS max_frozen_score,
        min(s.frozen_score) AS min_frozen_score
    FROM scored AS s
    GROUP BY s.event, s.selection, s.is_input_token, s.position_id, s.layer
)

SELECT
    b.event,
    b.selection,
    count(*) AS n_events,
    count(*) FILTER (b.is_input_token) AS n_input_token,
    avg(b.mean_score) AS mean_score,
    avg(b.max_score) AS max_score,
    avg(b.min_score) AS min_score,
    avg(b.mean_frozen_score) AS mean_frozen_score,
    avg(b.max_frozen_score) AS max_frozen_score,
    avg(b.min_frozen_score) AS min_frozen_score
FROM by_event AS b
GROUP BY b.event, b.selection
ORDER BY list_position(['saturation', 'elimination', 'elimination of another token'], b.event), b.selection;

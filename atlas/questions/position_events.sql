-- title:  Where FFNs settle and take down candidates at one position
-- source: Geva et al. 2022, section 5.2: saturation and elimination
-- grain:  layer, event
-- param:  position_id (bigint): a traced position_id
-- column: layer: block of the FFN, from 0
-- column: event: saturation (it lifts the final prediction to the top for good) or elimination (it takes the top candidate down)
-- column: token: the token settled or taken down
-- column: rank_before: its rank at resid_mid, by the logit lens like all that follow, from 1
-- column: rank_after: its rank at resid_post, from 1
-- column: prob_before: its probability at resid_mid, in [0, 1]
-- column: prob_after: its probability at resid_post, in [0, 1]; null where the token taken down is not among the stored candidates
-- column: is_counted: whether the paper's sets count it: every saturation, and of the eliminations the one where the candidate falls furthest
-- column: is_input_token: whether the token is the very one that was read there
-- chart:  bar(layer, rank_after)
CREATE OR REPLACE MACRO position_events(position_id) AS TABLE
WITH
happened AS (
    SELECT
        s.layer,
        'saturation' AS event,
        s.final_token_id AS token_id,
        s.final_rank_before AS rank_before,
        1 AS rank_after,
        s.final_prob_before AS prob_before,
        s.final_prob_after AS prob_after,
        TRUE AS is_counted
    FROM saturation AS s
    WHERE s.position_id = position_id
    UNION ALL
    SELECT
        e.layer,
        'elimination' AS event,
        e.candidate_token_id AS token_id,
        1 AS rank_before,
        e.candidate_rank_after AS rank_after,
        e.candidate_prob_before AS prob_before,
        c.prob AS prob_after,
        e.is_largest_fall AS is_counted
    FROM elimination AS e
    LEFT JOIN logit_lens_token AS c
        ON e.position_id = c.position_id AND e.layer = c.layer AND c.site = 'resid_post' AND e.candidate_token_id = c.token_id
    WHERE e.position_id = position_id
)

SELECT
    h.layer,
    h.event,
    k.text AS token,
    h.rank_before,
    h.rank_after,
    h.prob_before,
    h.prob_after,
    h.is_counted,
    h.token_id = p.token_id AS is_input_token
FROM happened AS h
INNER JOIN token AS k ON h.token_id = k.token_id
INNER JOIN position AS p ON p.position_id = position_id
ORDER BY h.layer, h.event;

-- title:  How the prediction at a position is built, site by site
-- source: Geva et al. 2021, section 5; the logit lens at all five sites
-- grain:  layer, site
-- param:  position_id (bigint): a traced position_id
-- param:  n (integer, 5): candidates listed at each site; an atlas holds 10
-- column: layer: transformer block, from 0
-- column: site: where in the block the state was read
-- column: top_token: token with the largest logit, by the logit lens like all that follow
-- column: top_prob: its probability, in [0, 1]
-- column: final_token: the model's final prediction
-- column: final_token_prob: its probability here, in [0, 1]
-- column: final_token_rank: its rank here, from 1
-- column: next_token: the corpus token that follows; null where the document ends
-- column: next_token_prob: its probability here, in [0, 1]
-- column: next_token_rank: its rank here, from 1
-- column: entropy: of the whole distribution, in nats
-- column: candidates: the leading tokens, best first
-- column: candidate_probs: their probabilities, in [0, 1]
-- chart:  line(layer, final_token_prob)
CREATE OR REPLACE MACRO prediction_trace(position_id, n := 5) AS TABLE
WITH
listed AS (
    SELECT
        c.layer,
        c.site,
        list(k.text ORDER BY c.rank) AS candidates,
        list(c.prob ORDER BY c.rank) AS candidate_probs
    FROM logit_lens_token AS c
    INNER JOIN token AS k ON c.token_id = k.token_id
    WHERE c.position_id = position_id AND c.rank <= n
    GROUP BY c.layer, c.site
)

SELECT
    l.layer,
    l.site,
    k.text AS top_token,
    l.top_prob,
    f.text AS final_token,
    l.final_token_prob,
    l.final_token_rank,
    nk.text AS next_token,
    l.next_token_prob,
    l.next_token_rank,
    l.entropy,
    c.candidates,
    c.candidate_probs
FROM logit_lens AS l
INNER JOIN trace AS t ON l.position_id = t.position_id
INNER JOIN position AS p ON l.position_id = p.position_id
INNER JOIN token AS k ON l.top_token_id = k.token_id
INNER JOIN token AS f ON t.final_token_id = f.token_id
LEFT JOIN token AS nk ON p.next_token_id = nk.token_id
LEFT JOIN listed AS c ON l.layer = c.layer AND l.site = c.site
WHERE l.position_id = position_id
ORDER BY l.layer, list_position(['resid_pre', 'attn_out', 'resid_mid', 'ffn_out', 'resid_post'], l.site);

-- title:  Heads that would copy the token they look at, or suppress it
-- source: Elhage et al. 2021, copying heads: eigenvalues of the OV circuit from tokens to logits
-- grain:  layer, head
-- param:  tail (text, 'max'): max for heads that copy most, min for those that suppress most
-- param:  n (integer, 25): how many heads
-- column: layer: transformer block, from 0
-- column: head: attention head of the layer, from 0
-- column: copying_effective: Σ Re λ / Σ |λ| from tokens as the layer finds them to logits, in [-1, 1], which the order follows
-- column: copying_token: the same from the tokens' own vectors, which mislead above layer 0
-- column: copying_uncentred: as the paper has it: what does not depend on the token counts too
-- column: own_first_share: share of 500 tokens whose own logit it raises above all others, in [0, 1]
-- column: stream_ratio: Σ Re λ / Σ |λ| of W_OV itself, in [-1, 1]; -1: it takes out of the stream what it reads there
-- column: matching: 1: it looks for its own token, in [-1, 1]
-- column: copying_probe: on 25 random tokens read four times, how far what it raises is the token that it looks at, in [-1, 1]; null without a head_probe
-- column: attended_logit: on 50 random tokens read twice, what it adds to the logit of the tokens that it looks at, above what it adds to all on average
-- chart:  bar(layer, copying_effective)
--
-- The ratios say what it could do, the last two columns what it does by the direct path on random tokens (Olsson et al. 2022: copying).
-- Positive eigenvalues are strong evidence and no proof: eigenvectors are not orthogonal.
CREATE OR REPLACE MACRO copying_heads(tail := 'max', n := 25) AS TABLE
SELECT
    h.layer,
    h.head,
    h.copying_effective,
    h.copying_token,
    h.copying_uncentred,
    h.own_first_share,
    h.stream_ratio,
    h.matching,
    o.copying AS copying_probe,
    r.attended_logit
FROM head AS h
LEFT JOIN head_probe AS o ON h.layer = o.layer AND h.head = o.head AND o.probe = 'olsson2022'
LEFT JOIN head_probe AS r ON h.layer = r.layer AND h.head = r.head AND r.probe = 'repeat'
ORDER BY CASE tail WHEN 'min' THEN h.copying_effective ELSE -h.copying_effective END, h.layer, h.head
LIMIT n;

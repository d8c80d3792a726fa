-- title:  What the weights tell of one attention head
-- source: Elhage et al. 2021, copying, composition and memory management, and its erratum of 2023
-- grain:  layer, head
-- param:  layer (integer): transformer block, from 0
-- param:  head (integer): attention head of the layer, from 0
-- column: layer: transformer block, from 0
-- column: head: attention head of the layer, from 0
-- column: kv_head: whose keys and values it uses, from 0
-- column: window_size: positions that it sees, its own included; null where it sees all before it
-- column: copying_effective: Σ Re λ / Σ |λ| of W_OV from tokens as the layer finds them to logits, in [-1, 1]; 1: it copies, -1: it suppresses
-- column: copying_token: the same from the tokens' own vectors, exact in layer 0
-- column: copying_uncentred: as the paper has it: what does not depend on the token counts too
-- column: own_first_share: share of 500 tokens whose own logit it raises above all others, in [0, 1]
-- column: stream_ratio: Σ Re λ / Σ |λ| of W_OV itself, in [-1, 1]; -1: it takes out of the stream what it reads there
-- column: matching: the same of W_QK between tokens, in [-1, 1]; 1: it looks for its own token
-- column: qk_norm: Frobenius norm of W_QK
-- column: ov_norm: Frobenius norm of W_OV
-- column: bias_norm: length of what it writes wherever it looks, in residual-stream units
-- column: strongest: of each kind (k, q, v) the head of an earlier layer that it reads most, with the score less chance; null in layer 0
-- chart:  card
--
-- What it could do: nothing here says where it looks in a text. Norms are folded into all weights.
CREATE OR REPLACE MACRO head_card(layer, head) AS TABLE
WITH
best AS (
    SELECT
        c.kind,
        arg_max(c.from_layer, (c.score, -c.from_layer, -c.from_head)) AS from_layer,
        arg_max(c.from_head, (c.score, -c.from_layer, -c.from_head)) AS from_head,
        max(c.score) AS score
    FROM composition AS c
    WHERE c.layer = layer AND c.head = head
    GROUP BY c.kind
),

named AS (
    SELECT list(printf('%s: L%dH%d %+.3f', b.kind, b.from_layer, b.from_head, b.score - 1 / sqrt(m.d_model)) ORDER BY b.kind) AS strongest
    FROM best AS b
    CROSS JOIN model AS m
)

SELECT
    h.layer,
    h.head,
    h.kv_head,
    h.window_size,
    h.copying_effective,
    h.copying_token,
    h.copying_uncentred,
    h.own_first_share,
    h.stream_ratio,
    h.matching,
    h.qk_norm,
    h.ov_norm,
    h.bias_norm,
    n.strongest
FROM head AS h
CROSS JOIN named AS n
WHERE h.layer = layer AND h.head = head;

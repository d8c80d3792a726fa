-- title:  Traced predictions that a neuron changed most
-- source: Elhage et al. 2021: direct logit attribution, of one sub-update; Geva et al. 2022, section 3
-- grain:  rank
-- param:  layer (integer): transformer block, from 0
-- param:  neuron (integer): FFN hidden unit of the layer, from 0
-- param:  n (integer, 25): how many
-- param:  corpus (integer, NULL): one corpus_id; NULL ranks over all corpora
-- column: rank: from 1, by falling size of final_logit; ties go to the smaller position_id
-- column: final_logit: what it adds to the prediction's logit there, signed, logits
-- column: text_before: at most 80 characters that the model had read before the token
-- column: token: characters of the token where the neuron wrote
-- column: final_token: the model's prediction
-- column: next_token: the corpus token that follows; null where the document ends
-- column: document: name of the document
-- column: corpus_id: the corpus it lies in
-- column: position_id: the token occurrence
-- chart:  tokens(token, final_logit)
--
-- Of each traced position an atlas keeps the neurons that move its logit most, over all layers: elsewhere this one was not among them.
CREATE OR REPLACE MACRO neuron_positions(layer, neuron, n := 25, corpus := NULL) AS TABLE
WITH
hit AS MATERIALIZED (
    SELECT
        row_number() OVER (ORDER BY abs(c.final_logit) DESC, c.position_id) AS overall_rank,
        c.position_id,
        c.final_logit,
        p.final_token_id
    FROM neuron_contribution AS c
    INNER JOIN traced_position AS p ON c.position_id = p.position_id
    WHERE c.layer = layer AND c.neuron = neuron AND (corpus IS NULL OR p.corpus_id = corpus)
    QUALIFY overall_rank <= n
)

SELECT
    h.overall_rank AS rank,
    h.final_logit,
    c.text_before,
    c.token,
    w.text AS final_token,
    c.next_token,
    c.document,
    c.corpus_id,
    h.position_id
FROM hit AS h
INNER JOIN token_context((SELECT list(i.position_id) FROM hit AS i)) AS c ON h.position_id = c.position_id
INNER JOIN token AS w ON h.final_token_id = w.token_id
ORDER BY h.overall_rank;

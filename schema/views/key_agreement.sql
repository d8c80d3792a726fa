-- title:  Whether each value predicts the token that follows its key's top trigger
-- source: Geva et al. 2021, section 4 and figures 4 and 6
-- grain:  corpus_id, layer, neuron
--
-- The next token is the corpus token that follows the trigger. A coefficient that is not above 0 makes no trigger: no text switches such a key on,
-- and its first rank is only the first position of the corpus. There, and where a document ends, `agrees` is null, which no average counts.
CREATE OR REPLACE VIEW key_agreement AS
SELECT
    t.corpus_id,
    t.layer,
    t.neuron,
    n.value_max_prob,
    n.value_top_token_id,
    p.next_token_id,
    if(t.coefficient > 0, p.next_token_id = n.value_top_token_id, NULL) AS agrees,
    p.index = 0 AS is_first
FROM trigger AS t
INNER JOIN position AS p ON t.position_id = p.position_id
INNER JOIN neuron AS n ON t.layer = n.layer AND t.neuron = n.neuron
WHERE t.tail = 'max' AND t.rank = 1;
COMMENT ON VIEW key_agreement IS 'Does the token that a value promotes most follow its key''s top trigger (Geva et al. 2021, figure 4)?';
COMMENT ON COLUMN key_agreement.corpus_id IS 'The corpus the trigger was found in.';
COMMENT ON COLUMN key_agreement.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN key_agreement.neuron IS 'FFN hidden unit of the layer, counted from 0.';
COMMENT ON COLUMN key_agreement.value_max_prob IS 'Largest probability of softmax(E·value), raw projection, in [0, 1].';
COMMENT ON COLUMN key_agreement.value_top_token_id IS 'Token of that probability.';
COMMENT ON COLUMN key_agreement.next_token_id IS 'The corpus token that follows the top trigger; null where the document ends.';
COMMENT ON COLUMN key_agreement.agrees IS 'The two are one token; null where the document ends or the coefficient is not above 0.';
COMMENT ON COLUMN key_agreement.is_first IS 'The top trigger is the first position of a sequence (index 0), where the states of most models are huge.';

-- title:  Triggers with the text around them
-- source: Geva et al. 2021, section 3
-- grain:  corpus_id, layer, neuron, tail, rank
--
-- Always filter by layer and neuron: text is cut for every row that is asked for.
-- The text before begins no earlier than the sequence does, because the model has read no more.
CREATE OR REPLACE VIEW trigger_text AS
SELECT
    t.corpus_id,
    t.layer,
    t.neuron,
    t.tail,
    t.rank,
    t.coefficient,
    substr(d.text, greatest(p.char_start - 79, f.char_start + 1), least(80, p.char_start - f.char_start)) AS text_before,
    if(p.char_end > p.char_start, substr(d.text, p.char_start + 1, p.char_end - p.char_start), k.text) AS token,
    substr(d.text, p.char_end + 1, 40) AS text_after,
    nk.text AS next_token,
    d.name AS document,
    d.metadata,
    t.position_id,
    p.index
FROM trigger AS t
INNER JOIN position AS p ON t.position_id = p.position_id
INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
INNER JOIN position AS f ON s.first_position_id = f.position_id
INNER JOIN document AS d ON s.document_id = d.document_id
INNER JOIN token AS k ON p.token_id = k.token_id
LEFT JOIN token AS nk ON p.next_token_id = nk.token_id;
COMMENT ON VIEW trigger_text IS 'trigger with its text: filter by layer and neuron, or it cuts text for every trigger of the atlas.';
COMMENT ON COLUMN trigger_text.corpus_id IS 'The corpus the trigger was found in.';
COMMENT ON COLUMN trigger_text.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN trigger_text.neuron IS 'FFN hidden unit of the layer, counted from 0.';
COMMENT ON COLUMN trigger_text.tail IS 'max: largest coefficients; min: smallest.';
COMMENT ON COLUMN trigger_text.rank IS 'From 1 within the corpus and tail.';
COMMENT ON COLUMN trigger_text.coefficient IS 'm_i, signed.';
COMMENT ON COLUMN trigger_text.text_before IS 'At most 80 characters that the model had read before the token.';
COMMENT ON COLUMN trigger_text.token IS 'The characters of the token where the coefficient was read; the vocabulary text of a token with none (BOS).';
COMMENT ON COLUMN trigger_text.text_after IS 'At most 40 characters after the token, which the model had not read.';
COMMENT ON COLUMN trigger_text.next_token IS 'The corpus token that follows; null at the end of a document.';
COMMENT ON COLUMN trigger_text.document IS 'Name of the document.';
COMMENT ON COLUMN trigger_text.metadata IS 'JSON object of what the source says of the document.';
COMMENT ON COLUMN trigger_text.position_id IS 'Where the coefficient was read.';
COMMENT ON COLUMN trigger_text.index IS 'Place in the sequence, from 0.';

-- title:  How often a value's top token follows its key's triggers
-- source: Geva et al. 2021, section 4.3 and table 2: precision@50
-- grain:  corpus_id, layer, neuron
--
-- Of the 50 triggers with the largest coefficients those above 0 count: a key that fewer texts switch on has fewer.
-- A trigger at the end of a document counts, and is followed by nothing.
CREATE OR REPLACE VIEW value_precision AS
SELECT
    t.corpus_id,
    t.layer,
    t.neuron,
    count(*) AS n_triggers,
    count(*) FILTER (p.next_token_id = n.value_top_token_id) AS n_followed,
    n_followed / n_triggers AS precision_at_50
FROM trigger AS t
INNER JOIN neuron AS n ON t.layer = n.layer AND t.neuron = n.neuron
INNER JOIN position AS p ON t.position_id = p.position_id
WHERE t.tail = 'max' AND t.rank <= 50 AND t.coefficient > 0
GROUP BY t.corpus_id, t.layer, t.neuron;
COMMENT ON VIEW value_precision IS 'How many of each key''s top 50 triggers are followed by its value''s top token (Geva et al. 2021, precision@50).';
COMMENT ON COLUMN value_precision.corpus_id IS 'The corpus the triggers were found in.';
COMMENT ON COLUMN value_precision.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN value_precision.neuron IS 'FFN hidden unit of the layer, counted from 0.';
COMMENT ON COLUMN value_precision.n_triggers IS 'Triggers of the tail max among the first 50 with a coefficient above 0; keys without one have no row.';
COMMENT ON COLUMN value_precision.n_followed IS 'Of them followed by the value''s top token.';
COMMENT ON COLUMN value_precision.precision_at_50 IS 'n_followed / n_triggers, in [0, 1].';

-- title:  When a memory counts as active in this model
-- source: Geva et al. 2021, section 5.1: a ReLU memory is active where its coefficient is not zero
-- grain:  activation
--
-- The rule is coefficient > 0 for every model, because that is what a trace counts. Only an ungated ReLU has memories that are off elsewhere.
CREATE OR REPLACE VIEW active_rule AS
SELECT
    m.activation,
    m.is_gated,
    CAST(0 AS REAL) AS threshold,
    if(
        m.activation LIKE 'relu%' AND NOT m.is_gated,
        'coefficient > 0: on or off, as in the paper',
        'coefficient > 0: the sign alone; the paper''s rule is for an ungated ReLU'
    ) AS active_means
FROM model AS m;
COMMENT ON VIEW active_rule IS 'What active means in this model: counts of active memories are the paper''s only for an ungated ReLU.';
COMMENT ON COLUMN active_rule.activation IS 'Activation function of the FFN.';
COMMENT ON COLUMN active_rule.is_gated IS 'The coefficient is act(gate·x)·(up·x), whose sign the model does not fix.';
COMMENT ON COLUMN active_rule.threshold IS 'A memory is active where its coefficient is above this.';
COMMENT ON COLUMN active_rule.active_means IS 'The rule in words, and whether it is the paper''s.';

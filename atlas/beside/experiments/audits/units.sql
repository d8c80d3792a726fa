-- rule: units are neurons or heads of the model
SELECT
    c.*,
    m.d_ffn,
    m.n_heads
FROM experiments.arm_change AS c
CROSS JOIN model AS m
WHERE c.unit NOT BETWEEN 0 AND if(c.site IN ('coefficient', 'pre_activation'), m.d_ffn, m.n_heads) - 1;

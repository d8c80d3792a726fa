-- rule: perplexity is exp(loss)
SELECT c.*
FROM experiments.arm_cost AS c
WHERE c.n_tokens < 1 OR abs(c.perplexity - exp(c.loss)) > 1e-4 * c.perplexity;

-- title:  Which tokens does the prediction rest on, by method, and is the method complete?
-- source: Sundararajan et al. 2017, section 3 (integrated gradients and completeness)
-- grain:  method, score, baseline, index
-- param:  experiment (integer): experiment_id of a saliency; experiment_summary() lists them
-- param:  prompt (integer): prompt_id, from 0
-- column: method: gradient_input, integrated_gradients or occlusion
-- column: score: what is attributed: logit_difference, logprob (nats) or prob
-- column: baseline: what stands in for a token
-- column: index: from 0
-- column: token: the token
-- column: attribution: what the token adds to the score, in the score's units; null where the method leaves it out
-- column: n_steps: points of the path at which gradients were taken
-- column: explained: the score as it is less the score of the baseline: what complete attributions sum to
-- column: sum: what they sum to
-- column: completeness_error: |sum - explained| / max(|explained|, 0.1); null where the method promises no sum
-- column: is_complete: the error is 5% or less; null where there is none
-- chart:  tokens
-- needs:  saliency
--
-- Occlusion comes first where integrated gradients are not complete.
CREATE OR REPLACE MACRO experiments.saliency(experiment, prompt) AS TABLE
SELECT
    a.method,
    a.score,
    a.baseline,
    a.index,
    k.text AS token,
    a.attribution,
    s.n_steps,
    s.at_input - s.at_baseline AS explained,
    s.sum,
    s.completeness_error,
    s.completeness_error <= 0.05 AS is_complete
FROM experiments.attribution AS a
INNER JOIN experiments.attribution_total AS s
    ON
        a.experiment_id = s.experiment_id
        AND a.prompt_id = s.prompt_id
        AND a.method = s.method
        AND a.score = s.score
        AND a.baseline = s.baseline
INNER JOIN experiments.prompt_token AS t ON a.experiment_id = t.experiment_id AND a.prompt_id = t.prompt_id AND a.index = t.index
INNER JOIN experiments.token_text AS k ON t.token_id = k.token_id
WHERE a.experiment_id = experiment AND a.prompt_id = prompt
ORDER BY coalesce(s.completeness_error <= 0.05, a.method = 'occlusion') DESC, a.method, a.score, a.baseline, a.index;
